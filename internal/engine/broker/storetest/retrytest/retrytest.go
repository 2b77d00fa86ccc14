// Package retrytest is the part of the contract of store.Store that is about why messages are given back.
package retrytest

import (
	"cmp"
	"math"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// Run runs it on a fresh and empty store: a message keeps the cause of its last retry, with each outcome and any text, until it
// moves.
func Run(t *testing.T, s store.Store) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(fault.Detail(err))
		}
	}
	own, err := s.Acquire(t.Context())
	must(err)
	queues, err := s.Declare(t.Context(), []string{"jobs", "dead"})
	must(err)
	first := own.NextSeq
	causes := []store.Cause{
		{Outcome: queue.OK, Reason: "asked"},
		{Outcome: queue.Failed, Reason: "TypeError: ü \"x\" {1}\n(src/index.ts:3:9)"},
		{Outcome: queue.TimedOut, Reason: "late"},
		{Outcome: queue.Lost, Reason: "NULL"},
		{Outcome: queue.Errored},
		{Reason: "only a text"},
		{},
	}
	rows, change := make([]store.Row, len(causes)), store.Change{}
	for i := range causes {
		rows[i] = store.Row{Queue: queues[0].ID, Seq: first + int64(i), Format: queue.JSON, SentAt: 1, Body: []byte("1")}
		key := store.Key{Queue: queues[0].ID, Seq: rows[i].Seq}
		change.Retry = append(change.Retry, store.Retry{Key: key, Failures: 1, VisibleAt: 5, Cause: causes[i]})
	}
	must(s.Append(t.Context(), rows, nil))
	want := func(what string, queueID int32, causes ...store.Cause) {
		t.Helper()
		ready, err := s.ListReady(t.Context(), queueID, 0, math.MaxInt64, 100)
		must(err)
		due, err := s.ListDue(t.Context(), queueID, store.Due{}, 10, 100)
		must(err)
		all := slices.Concat(ready, due)
		got, seqs := make([]store.Cause, 0, len(all)), make([]int64, 0, len(all))
		for _, h := range all {
			got = append(got, h.Retried)
			seqs = append(seqs, cmp.Or(h.Origin, h.Seq))
		}
		heads, err := s.Find(t.Context(), queueID, seqs)
		must(err)
		found := make([]store.Cause, 0, len(heads))
		for i := range heads {
			found = append(found, heads[i].Retried)
		}
		if diff := gocmp.Diff(causes, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		if diff := gocmp.Diff(causes, found); diff != "" {
			t.Errorf("%s, found by id (-want +got):\n%s", what, diff)
		}
	}
	want("not tried", queues[0].ID, make([]store.Cause, len(causes))...)
	must(s.Apply(t.Context(), &change))
	want("tried", queues[0].ID, causes...)
	again := change.Retry[1]
	again.Cause = store.Cause{Outcome: queue.OK, Reason: "asked"}
	must(s.Apply(t.Context(), &store.Change{
		Retry: []store.Retry{again},
		Move:  []store.Move{{From: change.Retry[0].Key, To: store.Key{Queue: queues[1].ID, Seq: first + 100}, Source: queues[0].ID, Reason: "dead"}},
	}))
	want("tried again", queues[0].ID, append([]store.Cause{again.Cause}, causes[2:]...)...)
	want("moved", queues[1].ID, store.Cause{})
}
