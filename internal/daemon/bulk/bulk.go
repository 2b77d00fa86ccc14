// Package bulk carries background operations out on the queues of a node, and records when they begin and end.
package bulk

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strconv"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/filter"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/broker/operate"
	"github.com/runlot/runlot/internal/engine/operations"
	"github.com/runlot/runlot/internal/server/api/reach"
)

// Start returns an engine that goes on with what is open in a store. Events may be nil. The caller stops it before the
// queues end.
func Start(ctx context.Context, store operations.Store, queues reach.Queues, events reach.Events, log *slog.Logger) (*operations.Engine, error) {
	b := &bulk{reach.Reach{Queues: queues, Events: events, Log: log}}
	e := operations.New(operations.Options{Store: store, Runs: b, Observer: b, Log: log})
	return e, e.Start(ctx)
}

// bulk implements operations.Runs and operations.Observer.
type bulk struct{ reach reach.Reach }

// kinds are what the broker calls them.
var kinds = map[operations.Kind]operate.BulkKind{
	operations.Redrive: operate.BulkRedrive, operations.Delete: operate.BulkDelete, operations.RetryNow: operate.BulkRetryNow,
}

// Begin implements operations.Runs.
func (b *bulk) Begin(ctx context.Context, o *operations.Operation) (operations.Run, error) {
	db, err := b.reach.Queues.Database(ctx, o.Database)
	if err != nil {
		// After a start, the apps that use a database may come later.
		return nil, fault.New(fault.Unavailable, queue.CodeOverloaded, "the database %s is not in use at the moment", o.Database).WithCause(err)
	}
	bo := operate.BulkOptions{Kind: kinds[o.Kind], To: o.To, Action: o.Action()}
	if bo.Filter, err = filter.Parse(o.Filter); err != nil {
		return nil, err
	}
	for _, text := range o.IDs {
		id, err := queue.ParseID(text)
		if err != nil {
			return nil, err
		}
		bo.IDs = append(bo.IDs, id)
	}
	if o.Place != "" {
		if _, err := fmt.Sscanf(o.Place, placeFormat, &bo.At.After, &bo.At.UpTo); err != nil {
			return nil, fmt.Errorf("the place %q of operation %d: %w", o.Place, o.ID, err)
		}
	}
	if o.App != "" {
		token := &access.Token{App: o.App}
		bo.May = func(queueName string) bool { return b.reach.Opens(token, o.Database, queueName) }
	}
	r, err := db.Broker.Bulk(ctx, o.Queue, bo)
	if err != nil {
		return nil, err
	}
	return run{r}, nil
}

// placeFormat is how a place is stored.
const placeFormat = "%d.%d"

// run implements operations.Run.
type run struct{ *operate.BulkRun }

// Place implements operations.Run.
func (r run) Place() string {
	at := r.BulkRun.Place()
	return fmt.Sprintf(placeFormat, at.After, at.UpTo)
}

// Step implements operations.Run.
func (r run) Step(ctx context.Context, rows int) (operations.Counts, error) {
	d, err := r.BulkRun.Step(ctx, rows)
	return operations.Counts{Looked: d.Looked, Matched: d.Matched, Done: d.Done, Skipped: map[string]int64{
		"in_flight": d.InFlight, "changed": d.Changed, "missing": d.Missing, "unchanged": d.Unchanged, "no_source": d.NoSource, "forbidden": d.Forbidden,
	}}, err
}

// Began implements operations.Observer.
func (b *bulk) Began(o *operations.Operation) { b.record(o, "operation.started", nil) }

// Ended implements operations.Observer.
func (b *bulk) Ended(o *operations.Operation) {
	detail := map[string]string{"messages": strconv.FormatInt(o.Done, 10), "matched": strconv.FormatInt(o.Matched, 10)}
	if o.Error != "" {
		detail["reason"] = o.Error
	}
	b.record(o, "operation."+string(o.State), detail)
}

func (b *bulk) record(o *operations.Operation, kind string, detail map[string]string) {
	all := map[string]string{"operation": strconv.FormatInt(o.ID, 10), "kind": string(o.Kind)}
	for name, text := range map[string]string{"filter": o.Filter, "to": o.To} {
		if text != "" {
			all[name] = text
		}
	}
	if len(o.IDs) > 0 {
		all["named"] = strconv.Itoa(len(o.IDs))
	}
	maps.Copy(all, detail)
	ctx, cancel := context.WithTimeout(context.Background(), queue.SendTimeout)
	defer cancel()
	b.reach.Record(ctx, o.Author, o.App, &reach.Path{Database: o.Database, Queue: o.Queue}, kind, all)
}
