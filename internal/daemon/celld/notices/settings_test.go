package notices

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runlot/runlot/internal/adapter/smtp/smtptest"
	"github.com/runlot/runlot/internal/core/fault"
)

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func TestWays(t *testing.T) {
	s := Settings{
		To: []string{"Ann <ann@example.com>", "ben@example.com", "ann@example.com"}, SMTPURL: "smtps://me@mail.example.com",
		SMTPPasswordFile: write(t, "pass word\n"), Webhooks: []string{"https://hooks.example.com/x"}, WebhookSecretFile: write(t, secret),
	}
	ways, err := s.Ways("127.0.0.1:8788", "v1")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, w := range ways {
		names = append(names, w.Ways()...)
	}
	if want := []string{"mail ann@example.com", "mail ben@example.com", "webhook hooks.example.com "}; len(names) != 3 || !slices.Equal(names[:2], want[:2]) || !strings.HasPrefix(names[2], want[2]) {
		t.Errorf("ways %q", names)
	}
	if ways, err := (&Settings{}).Ways("", ""); len(ways) != 0 || err != nil {
		t.Errorf("without settings: %v, error %v", ways, err)
	}
}

func TestSettingsThatMakeNoSense(t *testing.T) {
	_, authority, err := smtptest.Certificate("x")
	if err != nil {
		t.Fatal(err)
	}
	many := make([]string, 100)
	for i := range many {
		many[i] = "ann@example.com"
	}
	to := []string{"ann@example.com"}
	for name, test := range map[string]struct {
		s    Settings
		want string
	}{
		"a rule that is none":     {Settings{Rules: []string{"queue"}}, `there is no rule "queue"`},
		"an age below 0":          {Settings{Old: -1}, "notify-old takes"},
		"no receiver":             {Settings{SMTPURL: "smtp://mail.example.com"}, "need both"},
		"no server":               {Settings{To: to}, "need both"},
		"many receivers":          {Settings{SMTPURL: "smtp://mail.example.com", To: many}, "the most are 20"},
		"a server that is none":   {Settings{SMTPURL: "mail", To: to}, "is no address of a mail server"},
		"a receiver that is none": {Settings{SMTPURL: "smtp://mail.example.com", To: []string{"ann"}}, `notify-to: "ann" is no address`},
		"a sender that is none":   {Settings{SMTPURL: "smtp://mail.example.com", To: to, From: "a\r\nBcc: b@c.d"}, "notify-from"},
		"two passwords":           {Settings{SMTPURL: "smtp://me:pw@mail.example.com", To: to, SMTPPasswordFile: write(t, "x")}, "smtp-password-file is for"},
		"a password of nobody":    {Settings{SMTPURL: "smtp://mail.example.com", To: to, SMTPPasswordFile: write(t, "x")}, "smtp-password-file is for"},
		"no such password":        {Settings{SMTPURL: "smtp://me@mail.example.com", To: to, SMTPPasswordFile: "/nowhere"}, "cannot be read"},
		"no authority":            {Settings{SMTPURL: "smtp://mail.example.com", To: to, SMTPCAFile: write(t, "x")}, "has no certificate"},
		"no secret":               {Settings{Webhooks: []string{"https://a"}}, "needs webhook-secret-file"},
		"a secret that is none":   {Settings{Webhooks: []string{"https://a"}, WebhookSecretFile: write(t, "x")}, "is no secret of a webhook"},
		"a webhook in the clear":  {Settings{Webhooks: []string{"http://a"}, WebhookSecretFile: write(t, secret)}, "not called over https"},
		"many webhooks":           {Settings{Webhooks: many, WebhookSecretFile: write(t, secret)}, "the most are 10"},
		"no page for operators":   {Settings{OperatorURL: "celld.example.com"}, "is no address at which operators"},
		"fine":                    {Settings{SMTPURL: "smtp://mail.example.com", To: to, SMTPCAFile: write(t, string(authority)), Rules: AllRules}, ""},
	} {
		err := test.s.Check()
		if (err == nil) != (test.want == "") || err != nil && (!strings.Contains(err.Error(), test.want) || fault.KindOf(err) == fault.Internal) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOperator(t *testing.T) {
	name := host()
	for _, test := range []struct{ url, listen, want string }{
		{"", "127.0.0.1:8788", "http://127.0.0.1:8788"},
		{"", ":8788", "http://" + name + ":8788"},
		{"", "[::]:8788", "http://" + name + ":8788"},
		{"", "0.0.0.0:8788", "http://" + name + ":8788"},
		{"https://celld.example.com/", ":8788", "https://celld.example.com"},
		{"https://example.com/celld", ":8788", "https://example.com/celld"},
	} {
		if got, err := (&Settings{OperatorURL: test.url}).operator(test.listen); got != test.want || err != nil {
			t.Errorf("%+v: %s, error %v", test, got, err)
		}
	}
}
