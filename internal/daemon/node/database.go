package node

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/runlot/runlot/internal/adapter/workerd"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/caps"
	"github.com/runlot/runlot/internal/daemon/numbers"
	"github.com/runlot/runlot/internal/daemon/witness"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/broker/metered"
	"github.com/runlot/runlot/internal/engine/broker/store"
	"github.com/runlot/runlot/internal/engine/broker/usage"
	"github.com/runlot/runlot/internal/engine/ledger"
	"github.com/runlot/runlot/internal/engine/series"
)

// database is the queues of one PostgreSQL database: it keeps a broker running over it, and starts another when the
// first loses its ownership, as it does when PostgreSQL restarts.
type database struct {
	name   string
	open   func(ctx context.Context) (Store, workerd.Database, error)
	log    *slog.Logger
	notice func(text string)
	space  usage.Bounds
	told   witness.Facts // nil for nobody

	// records is the history of the batches, for as long as the database is in use.
	records *ledger.Ledger
	// series is how the queues did, for as long.
	series *series.Recorder

	// app is how the app reaches the database, as of the last time that it was opened.
	app atomic.Pointer[workerd.Database]
	// pools are the connections of the store that was opened last, if it tells.
	pools atomic.Pointer[map[string]*pgxpool.Pool]

	mu     sync.Mutex
	queues []string               // every queue that was declared, so that the next broker knows them; guarded by mu
	calls  map[*consumer]struct{} // who delivers the queues; guarded by mu
	broker *broker.Broker         // nil while there is none; guarded by mu
	daily  int64                  // the daily cap of operations; guarded by mu
	change chan struct{}          // closed and replaced whenever broker changes; guarded by mu

	stop context.CancelFunc
	done chan struct{} // closed when run has returned
}

func newDatabase(name string, log *slog.Logger, notice func(string), open func(context.Context) (Store, workerd.Database, error)) *database {
	log = log.With("database", name)
	d := &database{
		name: name, open: open, log: log, notice: notice, records: ledger.New(log), calls: map[*consumer]struct{}{}, change: make(chan struct{}),
	}
	looks := &numbers.Looks{Broker: d.current, Calls: d.handlerCalls}
	d.series = series.New(log, looks.Gauges)
	return d
}

// Start opens the database and returns when its queues can be used. It fails when the first try fails for a reason that
// waiting does not mend.
func (d *database) Start(ctx context.Context) error {
	b, closeStore, err := d.startBroker(ctx)
	if err != nil {
		return err
	}
	runCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	d.stop, d.done = stop, make(chan struct{})
	d.records.Start()
	d.series.Start()
	d.set(b)
	go d.run(runCtx, b, closeStore)
	return nil
}

// run owns the broker: it waits for its end and starts the next one.
func (d *database) run(ctx context.Context, b *broker.Broker, closeStore func()) {
	defer close(d.done)
	defer d.stopRecords()
	for {
		select {
		case <-ctx.Done():
			d.set(nil)
			err := d.stopBroker(b, func() {
				d.stopRecords()
				closeStore()
			})
			if f := fault.From(err); f != nil && f.Code == broker.CodeUnsettled {
				d.notice("database " + d.name + ": " + f.Message)
			}
			return
		case <-b.Done():
		}
		d.set(nil)
		if d.told != nil {
			d.told.Left(d.name)
		}
		d.log.Warn("the queues have lost their database", "error", fault.Detail(b.Err()))
		d.notice("database " + d.name + " is away; sends wait, deliveries pause")
		_ = d.stopBroker(b, closeStore) // it is in the log
		wait := queue.Backoff{First: queue.StoreRetryFirst, Max: queue.StoreRetryMax}
		for try := 1; ; try++ {
			var err error
			if b, closeStore, err = d.startBroker(ctx); err == nil {
				break
			}
			if ctx.Err() != nil {
				return
			}
			d.log.Debug("the database does not answer yet", "try", try, "error", fault.Detail(err))
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait.Delay(try)):
			}
		}
		d.set(b)
		d.notice("database " + d.name + " is back")
	}
}

func (d *database) startBroker(ctx context.Context) (*broker.Broker, func(), error) {
	store, app, err := d.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	d.app.Store(&app)
	d.records.Attach(store.Records())
	d.series.Attach(store.Series())
	if pooled, ok := store.(interface {
		Pools() map[string]*pgxpool.Pool
	}); ok {
		d.pools.Store(new(pooled.Pools()))
	}
	closeStore := func() { d.closeStore(store) }
	d.mu.Lock()
	daily := d.daily
	d.mu.Unlock()
	b := broker.New(broker.Options{
		Store: metered.New(store, numbers.Meter{Recorder: d.series}), Log: d.log, DailyOperations: daily, Space: d.space, Observer: witness.Observer(d.told, caps.Teller{Database: d.name, Notice: d.notice}), Expired: d.expired,
	})
	if err := b.Start(ctx); err != nil {
		d.closeStore(store)
		return nil, nil, err
	}
	d.mu.Lock()
	names := d.queues
	d.mu.Unlock()
	if err := b.Declare(ctx, names); err != nil {
		_ = d.stopBroker(b, closeStore) // it is in the log
		return nil, nil, err
	}
	return b, closeStore, nil
}

func (d *database) closeStore(store Store) {
	d.records.Detach()
	d.series.Detach()
	ctx, cancel := context.WithTimeout(context.Background(), queue.ReleaseTime)
	defer cancel()
	if err := store.Close(ctx); err != nil {
		d.log.Debug("the database's connections did not close cleanly", "error", fault.Detail(err))
	}
}

// stopRecords writes the last records and the last of the series, within bounds.
func (d *database) stopRecords() {
	ctx, cancel := context.WithTimeout(context.Background(), queue.RecordStopTime)
	defer cancel()
	d.records.Stop(ctx)
	d.series.Stop(ctx)
}

// expired takes note of messages that outlived their retention.
func (d *database) expired(queueName string, n int) {
	d.records.Expired(queueName, n)
	d.series.Tally(queueName).Expired(n)
}

// stopBroker stops a broker. Its dispatchers have waited for their settlements before; what the database does not take in as
// much time again is left.
func (d *database) stopBroker(b *broker.Broker, closeStore func()) error {
	ctx, cancel := context.WithTimeout(context.Background(), queue.SettleGrace)
	defer cancel()
	err := b.Stop(ctx)
	if err != nil {
		d.log.Warn("the queues did not stop cleanly", "error", fault.Detail(err))
	}
	closeStore()
	return err
}

// Stop ends deliveries and sends, and waits. Twice is fine.
func (d *database) Stop() {
	if d.done == nil {
		return
	}
	d.stop()
	<-d.done
}

func (d *database) set(b *broker.Broker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broker = b
	if b != nil {
		b.SetDailyOperations(d.daily) // it may have been changed since b was made
	}
	close(d.change)
	d.change = make(chan struct{})
}

// SetDailyOperations changes the daily cap, now and under every later broker.
func (d *database) SetDailyOperations(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.daily != n && d.broker != nil {
		d.broker.SetDailyOperations(n)
	}
	d.daily = n
}

// live waits for a broker until ctx ends.
func (d *database) live(ctx context.Context) (*broker.Broker, error) {
	for {
		d.mu.Lock()
		b, change := d.broker, d.change
		d.mu.Unlock()
		if b != nil && !ended(b) {
			return b, nil
		}
		select {
		case <-ctx.Done():
			return nil, fault.New(fault.Unavailable, queue.CodeOverloaded, "Queue is unavailable: its database does not answer").WithCause(ctx.Err())
		case <-change:
		}
	}
}

// ended reports whether a broker no longer serves; run replaces it soon.
func ended(b *broker.Broker) bool {
	select {
	case <-b.Done():
		return true
	default:
		return false
	}
}

// Declare makes sure that the queues exist, now and under every later broker.
func (d *database) Declare(ctx context.Context, names []string) error {
	b, err := d.live(ctx)
	if err != nil {
		return err
	}
	if err := b.Declare(ctx, names); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range names {
		if !slices.Contains(d.queues, name) {
			d.queues = append(d.queues, name)
		}
	}
	return nil
}

// remove deletes a queue, and drops what memory holds of it, so that another of its name begins with nothing.
func (d *database) remove(ctx context.Context, b *broker.Broker, queueName string) (store.Count, error) {
	d.mu.Lock()
	d.queues = slices.DeleteFunc(d.queues, func(name string) bool { return name == queueName })
	d.mu.Unlock()
	return b.RemoveQueue(ctx, queueName, func() {
		d.records.Forget(queueName)
		d.series.Forget(queueName)
		if d.told != nil {
			d.told.Removed(d.name, queueName)
		}
	})
}

// Waiting is the number of unsettled messages of a queue; -1 when they are not counted before ctx ends.
func (d *database) Waiting(ctx context.Context, queueName string) int64 {
	b, err := d.live(ctx)
	if err != nil {
		return -1
	}
	select {
	case <-b.Counted():
	case <-ctx.Done():
		return -1
	}
	m, err := b.Metrics(ctx, queueName)
	if err != nil {
		return -1
	}
	return m.Count
}

// Send implements binding.Queues.
func (d *database) Send(ctx context.Context, queueName string, drafts []queue.Draft) (queue.Metrics, error) {
	b, err := d.live(ctx)
	if err != nil {
		return queue.Metrics{}, err
	}
	return b.Send(ctx, queueName, drafts)
}

// Metrics implements binding.Queues.
func (d *database) Metrics(ctx context.Context, queueName string) (queue.Metrics, error) {
	b, err := d.live(ctx)
	if err != nil {
		return queue.Metrics{}, err
	}
	return b.Metrics(ctx, queueName)
}

// current is the broker that serves now; nil while none does.
func (d *database) current() numbers.Broker {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broker == nil {
		return nil
	}
	return d.broker
}

// consume notes who delivers a queue.
func (d *database) consume(c *consumer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls[c] = struct{}{}
}

// forget notes that somebody delivers a queue no more.
func (d *database) forget(c *consumer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.calls, c)
}

// handlerCalls are those of the queues that are delivered here.
func (d *database) handlerCalls() map[string]numbers.Calls {
	d.mu.Lock()
	consumers := slices.Collect(maps.Keys(d.calls))
	d.mu.Unlock()
	calls := make(map[string]numbers.Calls, len(consumers))
	for _, c := range consumers {
		most, allowed := c.Calls()
		had := calls[c.settings.Queue]
		calls[c.settings.Queue] = numbers.Calls{Most: had.Most + most, Allowed: max(had.Allowed, allowed)}
	}
	return calls
}
