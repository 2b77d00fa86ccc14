package removals_test

import (
	"context"
	"log/slog"
	"testing"

	memory "github.com/runlot/runlot/internal/adapter/memory/operations"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/removals"
	"github.com/runlot/runlot/internal/engine/broker/store"
	"github.com/runlot/runlot/internal/engine/operations"
	"github.com/runlot/runlot/internal/engine/subscribe"
)

// world is a node whose one queue can be deleted, and operations that go on until they are cancelled.
type world struct{ removed, refuse bool }

func (w *world) Removable(context.Context, string, string) error {
	if w.refuse {
		return fault.New(fault.Conflict, "queue_used", "somebody uses it")
	}
	return nil
}

func (w *world) RemoveQueue(context.Context, string, string) (store.Count, error) {
	w.removed = true
	return store.Count{Messages: 3}, nil
}

func (*world) Begin(context.Context, *operations.Operation) (operations.Run, error) {
	return nil, fault.New(fault.Unavailable, queue.CodeOverloaded, "not now")
}
func (*world) Began(*operations.Operation) {}
func (*world) Ended(*operations.Operation) {}

// TestWhatEndsWithAQueue: its operations are cancelled and those of others go on; a queue that may not be deleted, or that a
// subscription names, keeps them.
func TestWhatEndsWithAQueue(t *testing.T) {
	w := &world{refuse: true}
	e := operations.New(operations.Options{Store: &memory.Store{}, Runs: w, Observer: w, Log: slog.New(slog.DiscardHandler)})
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer e.Stop()
	ids := map[string]int64{}
	for _, name := range []string{"jobs", "mails"} {
		o, err := e.Add(t.Context(), &operations.Spec{Kind: operations.Delete, Database: "db", Queue: name, Filter: "age>1h"})
		if err != nil {
			t.Fatal(err)
		}
		ids[name] = o.ID
	}
	ended := func(name string) bool {
		o, err := e.Get(t.Context(), ids[name])
		if err != nil {
			t.Fatal(err)
		}
		return o.State.Ended()
	}
	var list []subscribe.Subscription
	r := &removals.Remover{Node: w, Operations: e, Subscriptions: func(context.Context) ([]subscribe.Subscription, error) { return list, nil }}
	for range 2 {
		if _, err := r.RemoveQueue(t.Context(), "db", "jobs"); fault.KindOf(err) != fault.Conflict || w.removed || ended("jobs") {
			t.Fatalf("what may not be deleted: %v", err)
		}
		w.refuse, list = false, []subscribe.Subscription{{ID: "1", Name: "deaths", Target: subscribe.Place{Database: "db", Queue: "jobs"}}}
	}
	list = nil
	if gone, err := r.RemoveQueue(t.Context(), "db", "jobs"); err != nil || gone.Messages != 3 || !w.removed {
		t.Fatalf("%+v, %v", gone, err)
	}
	if !ended("jobs") || ended("mails") {
		t.Errorf("ended: %t of the queue, %t of another", ended("jobs"), ended("mails"))
	}
}
