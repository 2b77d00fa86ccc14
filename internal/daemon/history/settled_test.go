package history_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runlot/runlot/internal/adapter/memory"
	"github.com/runlot/runlot/internal/adapter/memory/record"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/history"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/broker/operate"
	"github.com/runlot/runlot/internal/engine/dispatch"
	"github.com/runlot/runlot/internal/engine/ledger"
)

// handler does something at random with each batch.
type handler struct {
	mu     sync.Mutex
	random *rand.Rand // guarded by mu
	calm   bool       // guarded by mu
}

func (h *handler) intN(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.random.IntN(n)
}

// Deliver implements dispatch.Runtime.
func (h *handler) Deliver(_ context.Context, d *dispatch.Delivery) (*dispatch.Result, error) {
	time.Sleep(time.Duration(h.intN(300)) * time.Millisecond)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calm {
		return &dispatch.Result{Outcome: queue.OK}, nil
	}
	r := &dispatch.Result{Outcome: queue.OK, Report: queue.Report{Acked: map[queue.ID]struct{}{}, Retried: map[queue.ID]*time.Duration{}}}
	for i := range d.Batch.Messages {
		switch id := d.Batch.Messages[i].ID; h.random.IntN(4) {
		case 0:
			r.Report.Retried[id] = new(time.Duration(h.random.IntN(2_000)) * time.Millisecond)
		case 1:
			r.Report.Acked[id] = struct{}{}
		}
	}
	switch h.random.IntN(8) {
	case 0:
		return nil, dispatch.ErrLost
	case 1:
		r.Outcome = queue.Failed
	}
	return r, nil
}

// fails lets the store be slow, and fail now and then.
func (h *handler) fails(call string) memory.Fault {
	f := memory.Fault{Before: time.Duration(h.intN(20)) * time.Millisecond}
	switch n := h.intN(15); {
	case n == 0:
		f.Err = fault.New(fault.Unavailable, "simulated", "the store does not answer")
	case n == 1 && call == "Apply":
		f.Err = errors.New("the store refuses")
	case n == 2:
		f.After = time.Second
	}
	return f
}

// TestSettledIsGone runs handlers that do anything over a store that fails, and owners that lose their database: what the
// list of settled messages names as acked or dropped is never in a queue, and none is named twice.
func TestSettledIsGone(t *testing.T) {
	for seed := range uint64(15) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { settledIsGone(t, seed) })
		})
	}
}

func settledIsGone(t *testing.T, seed uint64) {
	h := &handler{random: rand.New(rand.NewPCG(seed, 1))}
	db, kept := memory.NewDatabase(), &record.Store{}
	kept.Declare("jobs", "dead")
	l := ledger.New(slog.New(slog.DiscardHandler))
	l.Attach(kept)
	l.Start()
	defer l.Stop(t.Context())
	sent := 0
	for round := range 6 {
		if round > 0 {
			db.SetFaults(h.fails)
		}
		b := serve(t, db)
		d := consume(t, b, h, l)
		for range 5 {
			drafts := make([]queue.Draft, 1+h.intN(6))
			for i := range drafts {
				drafts[i] = queue.Draft{Format: queue.JSON, Body: []byte("1")}
			}
			if _, err := b.Send(t.Context(), "jobs", drafts); err == nil {
				sent += len(drafts)
			}
			time.Sleep(time.Duration(h.intN(1_000)) * time.Millisecond)
			look(t, l, b)
		}
		if h.intN(2) == 0 {
			// Some of what is under way is carried out although nobody is told.
			db.Crash(func() bool { return h.intN(2) == 0 })
		}
		db.SetFaults(nil)
		stop(t, d, b)
	}
	h.mu.Lock()
	h.calm = true
	h.mu.Unlock()
	b := serve(t, db)
	d := consume(t, b, h, l)
	if _, err := b.Redrive(t.Context(), "dead", operate.RedriveOptions{}); err != nil {
		t.Error(err)
	}
	time.Sleep(time.Hour)
	if named := look(t, l, b); named == 0 || named > sent {
		t.Errorf("%d messages are named as settled of %d that were sent", named, sent)
	}
	stop(t, d, b)
}

func serve(t *testing.T, db *memory.Database) *broker.Broker {
	for {
		b := broker.New(broker.Options{Store: db.Open()})
		err := b.Start(t.Context())
		if err == nil {
			err = b.Declare(t.Context(), []string{"jobs", "dead"})
		}
		if err == nil {
			return b
		}
		_ = b.Stop(t.Context())
		time.Sleep(10 * time.Millisecond)
	}
}

// consumer is a dispatcher and its lane.
type consumer struct {
	*dispatch.Dispatcher
	lane *broker.Lane
}

func consume(t *testing.T, b *broker.Broker, h *handler, l *ledger.Ledger) consumer {
	lane, err := b.Lane("jobs")
	if err != nil {
		t.Fatal(err)
	}
	d := dispatch.New(dispatch.Options{
		App: "app", Lane: lane, Recorder: history.Recorder{Observer: &observer{}, Ledger: l}, Log: slog.New(slog.DiscardHandler),
		Consumer: queue.Consumer{
			Queue: "jobs", BatchSize: 4, BatchTimeout: 100 * time.Millisecond, MaxRetries: 1, DeadLetterQueue: "dead",
			Backoff: queue.Backoff{First: time.Second, Max: time.Second}, MaxConcurrency: 3, HandlerTime: time.Minute, Retention: 96 * time.Hour,
		},
	})
	d.Start(context.WithoutCancel(t.Context()))
	d.SetRuntime(h, "v1")
	return consumer{d, lane}
}

func stop(t *testing.T, c consumer, b *broker.Broker) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_ = c.Stop(ctx)
	c.lane.Close()
	_ = b.Stop(ctx)
}

// look checks every settled message, and returns how many are acked or dropped. The list is read first: what it names may not
// come back.
func look(t *testing.T, l *ledger.Ledger, b *broker.Broker) (gone int) {
	seen := map[queue.ID]bool{}
	for cursor := ""; ; {
		page, err := l.Settled(t.Context(), "jobs", cursor, 7)
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Messages {
			m := &page.Messages[i]
			if m.Kind == ledger.Dead {
				continue
			}
			if seen[m.ID] {
				t.Errorf("message %s is settled twice", m.ID)
			}
			seen[m.ID] = true
			for _, name := range []string{"jobs", "dead"} {
				if found, err := b.Message(t.Context(), name, m.ID); err == nil {
					t.Errorf("message %s is %s, and %s in %s", m.ID, m.Kind, found.State, name)
				}
			}
		}
		if cursor = page.Next; cursor == "" {
			return len(seen)
		}
	}
}
