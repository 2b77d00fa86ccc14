package api_test

import (
	"testing"
	"time"

	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/notify"
)

func TestNoticesThroughTheAPI(t *testing.T) {
	w := newWorld(t)
	none, err := w.admin.Notices(t.Context(), 0, 10)
	if err != nil || none == nil || len(none) != 0 {
		t.Fatalf("%v, %v", none, err)
	}
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	for _, name := range []string{"jobs", "mails"} {
		n := &notify.Notice{Rule: notify.QueueFailed, At: at, Database: "db", Queue: name, App: "shop", Since: at, Count: 3, Reason: "no"}
		if added, err := w.outbox.Add(t.Context(), n, []string{"mail ann@example.com", "webhook https://example.com"}, 10); err != nil || !added {
			t.Fatal(added, err)
		}
	}
	d, _, err := w.outbox.Claim(t.Context(), []string{"mail ann@example.com"}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.outbox.Failed(t.Context(), d, "the mailbox is full"); err != nil {
		t.Fatal(err)
	}
	list, err := w.admin.Notices(t.Context(), 0, 10)
	if err != nil || len(list) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	n := list[1]
	if n.ID >= list[0].ID || n.Queue != "jobs" || n.App != "shop" || n.Rule != "queue_failed" || n.Title == "" || !n.At.Equal(at) || len(n.Ways) != 2 {
		t.Errorf("%+v", n)
	}
	if mail := n.Ways[0]; mail.State != "failed" || mail.Attempts != 1 || mail.Problem != "the mailbox is full" || mail.Next != nil || mail.Sent != nil {
		t.Errorf("%+v", mail)
	}
	if hook := n.Ways[1]; hook.State != "waiting" || hook.Next == nil {
		t.Errorf("%+v", hook)
	}
	if page, err := w.admin.Notices(t.Context(), list[0].ID, 10); err != nil || len(page) != 1 || page[0].ID != n.ID {
		t.Errorf("%+v, %v", page, err)
	}
	_, err = w.client("shop", access.Deploy).Notices(t.Context(), 0, 10)
	w.code(err, access.CodeForbidden)
}
