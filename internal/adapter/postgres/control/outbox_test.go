package control_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/runlot/runlot/internal/adapter/postgres/control"
	"github.com/runlot/runlot/internal/engine/notify"
	"github.com/runlot/runlot/internal/engine/notify/outboxtest"
)

func TestOutboxContract(t *testing.T) {
	_, url := open(t)
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer conn.Close(t.Context())
	outboxtest.Run(t, func(t *testing.T) func() notify.Outbox {
		_, err := conn.Exec(t.Context(), "TRUNCATE runlot_control.notice CASCADE")
		must(t, err)
		return func() notify.Outbox {
			s, err := control.Open(t.Context(), at(url))
			must(t, err)
			t.Cleanup(s.Close)
			return s.Outbox()
		}
	})
}

// TestAReceiverThatIsGone: what nobody sends does not wait for ever.
func TestAReceiverThatIsGone(t *testing.T) {
	s, url := open(t)
	o := s.Outbox()
	for _, name := range []string{"old", "new"} {
		if _, err := o.Add(t.Context(), &notify.Notice{Rule: notify.QueueFailed, At: day, Queue: name}, []string{"mail gone"}, 10); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), "UPDATE runlot_control.notice_way SET due_at = now() - interval '25 hours' WHERE notice = 1")
	must(t, err)
	_, err = o.Add(t.Context(), &notify.Notice{Rule: notify.Test, At: day}, []string{"mail ann"}, 10)
	must(t, err)
	list, err := o.Notices(t.Context(), 0, 10)
	must(t, err)
	if len(list) != 3 || list[2].Ways[0].State != notify.Failed || list[2].Ways[0].Problem == "" || list[1].Ways[0].State != notify.Waiting {
		t.Errorf("notices %+v", list)
	}
}

func TestVersionNumber(t *testing.T) {
	s, _ := open(t)
	v := upload("shop", "export default {}")
	must(t, s.AddVersion(t.Context(), v, 10))
	for _, test := range []struct {
		app, id string
		want    int
	}{{"shop", v.ID, 1}, {"blog", v.ID, 0}, {"shop", "0190b3c0-0000-7000-8000-000000000000", 0}, {"shop", "none", 0}} {
		if n, err := s.VersionNumber(t.Context(), test.app, test.id); n != test.want || err != nil {
			t.Errorf("%s of %s has the number %d, error %v", test.id, test.app, n, err)
		}
	}
}
