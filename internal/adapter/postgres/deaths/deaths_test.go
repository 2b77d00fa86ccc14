package deaths_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/postgres"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/adapter/postgres/deaths"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
	"github.com/runlot/runlot/internal/engine/subscribe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(clustertest.Main(m)) }

// TestNotes: a dead letter of a queue that is watched leaves a note with its move, and nothing else does.
func TestNotes(t *testing.T) {
	access := clustertest.NewDatabase(t)
	queues, err := postgres.Open(t.Context(), postgres.Options{URL: access.OwnerURL(), AppRole: access.App.User, Node: "test", Log: slog.New(slog.DiscardHandler)})
	clustertest.Must(t, err)
	defer queues.Close(context.Background())
	own, err := queues.Acquire(t.Context())
	clustertest.Must(t, err)
	known, err := queues.Declare(t.Context(), []string{"jobs", "other", "dead"})
	clustertest.Must(t, err)
	jobs, other, dead := known[0].ID, known[1].ID, known[2].ID
	notes, err := deaths.New(t.Context(), func(context.Context) (string, error) { return access.OwnerURL(), nil })
	clustertest.Must(t, err)
	defer notes.Close()

	next := own.NextSeq
	clustertest.Must(t, queues.Reserve(t.Context(), next+1_000))
	sent := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	// die appends a message to a queue, where it fails twice, and moves it on.
	die := func(from, source int32, body, reason string) queue.ID {
		t.Helper()
		row := store.Row{Queue: from, Seq: next, Format: queue.JSON, SentAt: sent.UnixMilli(), Body: []byte(body)}
		clustertest.Must(t, queues.Append(t.Context(), []store.Row{row}, nil))
		key := store.Key{Queue: from, Seq: next}
		clustertest.Must(t, queues.Apply(t.Context(), &store.Change{Retry: []store.Retry{{Key: key, Failures: 1, VisibleAt: 1}}}))
		move := &store.Change{Move: []store.Move{{From: key, To: store.Key{Queue: dead, Seq: next + 1}, Source: source, Reason: reason}}}
		clustertest.Must(t, queues.Apply(t.Context(), move))
		clustertest.Must(t, queues.Apply(t.Context(), move)) // done again, as after a commit that was in doubt
		next += 2
		return queue.NewID(own.Store, row.Seq)
	}
	want := func(ids ...queue.ID) []subscribe.Death {
		t.Helper()
		list, err := notes.Deaths(t.Context(), 10)
		clustertest.Must(t, err)
		got := make([]queue.ID, len(list))
		for i := range list {
			got[i] = list[i].Message
		}
		if diff := cmp.Diff(ids, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("notes (-want +got):\n%s", diff)
		}
		return list
	}

	die(jobs, jobs, "1", "before anybody watches")
	clustertest.Must(t, notes.Watch(t.Context(), []string{"jobs", "nosuch"}))
	want()
	one := die(jobs, jobs, `{"a":1}`, "it threw")
	die(other, other, "2", "nobody watches")
	die(jobs, 0, "3", "") // moved by an operator
	die(jobs, jobs, subscribe.Mark+`"source":{}}`, "the event of a dead letter")
	two := die(jobs, jobs, "4", "")
	list := want(one, two)
	first := list[0]
	first.Number, first.Died = 0, time.Time{}
	first.Sent = first.Sent.UTC()
	if diff := cmp.Diff(subscribe.Death{Queue: "jobs", Target: "dead", Message: one, Sent: sent, Attempts: 2, Reason: "it threw"}, first); diff != "" {
		t.Error(diff)
	}
	if age := time.Since(list[0].Died); age < -time.Minute || age > time.Hour {
		t.Errorf("it died %v ago", age)
	}
	if short, err := notes.Deaths(t.Context(), 1); err != nil || len(short) != 1 {
		t.Errorf("%d notes, %v", len(short), err)
	}
	clustertest.Must(t, notes.Forget(t.Context(), []int64{list[0].Number}))
	want(two)
	clustertest.Must(t, notes.Watch(t.Context(), nil))
	die(jobs, jobs, "5", "")
	want(two)
}
