package usage

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// Options are what a Guard is made of. Account and Log are required.
type Options struct {
	Account store.Account
	Log     *slog.Logger
	// DailyOperations is the most operations of a day that sends may use up, until SetDailyOperations; 0 is no cap.
	DailyOperations int64
	// Space limits the space of the database.
	Space Bounds
	// Observer is told when one of the two is near or reached; nil is nobody.
	Observer Observer
}

// Guard is what a broker asks and tells: it counts by a Meter, and refuses by that and by a Space.
type Guard struct {
	meter  *Meter
	keeper *Keeper
	space  *Space
}

// New returns a guard that has counted nothing.
func New(o Options) *Guard {
	m := NewMeter(o.DailyOperations)
	return &Guard{
		meter:  m,
		keeper: NewKeeper(m, o.Account, o.Observer, o.Log),
		space:  NewSpace(o.Space, o.Account, o.Observer, o.Log),
	}
}

// Begin loads what the store has counted. It comes before everything else, and after the ownership.
func (g *Guard) Begin(ctx context.Context) error { return g.keeper.Begin(ctx) }

// Loop writes the counts and looks at the space until ctx ends.
func (g *Guard) Loop(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { g.space.Loop(ctx) })
	g.keeper.Loop(ctx)
}

// Save writes what was counted and is not written yet. It comes after Loop, while the ownership lasts.
func (g *Guard) Save(ctx context.Context) error { return g.keeper.Save(ctx) }

// SetDailyOperations changes the daily cap; 0 is none.
func (g *Guard) SetDailyOperations(n int64) { g.meter.SetCap(n, time.Now()) }

// Today is what was used of today, in UTC.
func (g *Guard) Today() Count { return g.meter.Used(time.Now()) }

// Days are those that are kept, today first, and the daily cap; 0 is none.
func (g *Guard) Days() (days []Day, dailyCap int64) { return g.meter.Days(time.Now()) }

// Admit refuses a send that a bound stops, with a fault of kind Limit, and reserves its operations. What is admitted is
// given back by Release, or counted by Sent.
func (g *Guard) Admit(operations int64) error {
	if err := g.space.Refusal(); err != nil {
		return err
	}
	return g.meter.Admit(operations, time.Now())
}

// Release gives back what Admit reserved for a send that was not committed.
func (g *Guard) Release(operations int64) {
	if operations > 0 {
		g.meter.Release(operations)
	}
}

// Sending returns the entry to be committed together with messages. One goroutine at a time uses it, and tells Sent what
// was committed before it asks for the next.
func (g *Guard) Sending(operations int64) store.Usage { return g.meter.Sending(operations, time.Now()) }

// Sent counts messages of a number of bytes that were committed with an entry, whose operations were all reserved.
func (g *Guard) Sent(entry *store.Usage, operations int64, bytes int) {
	g.meter.Sent(entry, operations)
	g.space.Wrote(bytes)
}

// Settling returns the entry to be committed together with settlements, and nil when they count nothing. Rules are those
// of Sending.
func (g *Guard) Settling(c Count) *store.Usage {
	if c == (Count{}) {
		return nil
	}
	entry := g.meter.Settling(c, time.Now())
	return &entry
}

// Settled counts settlements that were committed with an entry; nil counts nothing.
func (g *Guard) Settled(entry *store.Usage) {
	if entry == nil {
		return
	}
	g.meter.Settled(entry)
	g.space.Deleted()
}

// Drained counts what was taken over from SQL.
func (g *Guard) Drained(rows []store.Row) {
	var c Count
	size := 0
	for i := range rows {
		c.Written += queue.Operations(len(rows[i].Body))
		size += len(rows[i].Body)
	}
	g.meter.Add(c, time.Now())
	g.space.Wrote(size)
}

// Operated counts what an operator's call, or the end of a retention, has committed: chunks written and deleted.
func (g *Guard) Operated(written, deleted int64) {
	if written == 0 && deleted == 0 {
		return
	}
	g.meter.Add(Count{Written: written, Deleted: deleted}, time.Now())
	g.space.Deleted()
}

// Delivered counts a batch that is handed to a handler call.
func (g *Guard) Delivered(batch *queue.Batch) {
	var c Count
	for i := range batch.Messages {
		c.Delivered += queue.Operations(len(batch.Messages[i].Body))
	}
	g.meter.Add(c, time.Now())
}
