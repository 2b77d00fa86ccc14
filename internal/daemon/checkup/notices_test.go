package checkup_test

import (
	"fmt"
	"testing"

	"github.com/runlot/runlot/internal/adapter/smtp/smtptest"
	"github.com/runlot/runlot/internal/daemon/celld"
	"github.com/runlot/runlot/internal/daemon/celld/notices"
	"github.com/runlot/runlot/internal/daemon/checkup"
)

func TestTheMailServer(t *testing.T) {
	server, err := smtptest.Start(smtptest.Options{User: "me", Password: "right"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for _, test := range []struct {
		password string
		to       []string
		check    string
		state    checkup.State
		text     string
	}{
		{"right", []string{"ann@example.com"}, "mail server", checkup.OK, "lets celld in"},
		{"wrong", []string{"ann@example.com"}, "mail server", checkup.Fail, "does not let"},
		{"right", nil, "notifications", checkup.Fail, "mails need both"},
	} {
		s := &celld.Settings{Data: t.TempDir(), Notices: notices.Settings{
			SMTPURL: fmt.Sprintf("smtp+plain://me:%s@127.0.0.1:%d", test.password, server.Port), To: test.to,
		}}
		want(t, run(t, s), test.check, test.state, test.text)
	}
	if mails := server.Wait(0, nil); len(mails) > 0 {
		t.Errorf("the check has sent %d mails", len(mails))
	}
	if found := run(t, &celld.Settings{Data: t.TempDir()}); found["mail server"].Text+found["notifications"].Text != "" {
		t.Errorf("without settings it says %+v", found)
	}
}
