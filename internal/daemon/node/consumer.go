package node

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/tracing"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/dispatch"
)

// consumer keeps one queue delivered to one app for as long as it runs: it puts a dispatcher on the queue's lane, and
// another one on the next lane when the database comes back under a new broker.
type consumer struct {
	app       string
	settings  queue.Consumer
	database  *database
	budget    *dispatch.Budget
	isolation *dispatch.Isolation
	// stopTime is how long batches in flight may finish.
	stopTime time.Duration
	recorder dispatch.Recorder
	traces   *tracing.Queue
	log      *slog.Logger

	mu         sync.Mutex
	runtime    dispatch.Runtime     // guarded by mu
	version    string               // guarded by mu
	wake       func()               // set while the app rests; guarded by mu
	dispatcher *dispatch.Dispatcher // nil while there is no lane; guarded by mu

	stop context.CancelFunc
	done chan struct{} // closed when run has returned
}

// Start begins to deliver as soon as a runtime is set.
func (c *consumer) Start(ctx context.Context) {
	runCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop, c.done = stop, make(chan struct{})
	c.database.consume(c)
	go c.run(runCtx) //nolint:gosec // G118: the consumer outlives the call that starts it; Stop ends it
}

func (c *consumer) run(ctx context.Context) {
	defer close(c.done)
	defer c.database.forget(c)
	for ctx.Err() == nil {
		b, err := c.database.live(ctx)
		if err != nil {
			return
		}
		lane, err := c.lane(ctx, b)
		if err != nil {
			c.log.Error("a queue cannot be delivered", "queue", c.settings.Queue, "error", fault.Detail(err))
			select {
			case <-ctx.Done():
			case <-b.Done():
			}
			continue
		}
		d := dispatch.New(dispatch.Options{
			App: c.app, Consumer: c.settings, Lane: c.traces.Lane(lane), Recorder: c.recorder, Budget: c.budget, Isolation: c.isolation, Log: c.log,
		})
		c.mu.Lock()
		c.dispatcher = d
		switch {
		case c.runtime != nil:
			d.SetRuntime(c.runtime, c.version)
		case c.wake != nil:
			d.Rest(c.wake)
		}
		c.mu.Unlock()
		d.Start(context.WithoutCancel(ctx))
		select {
		case <-ctx.Done():
		case <-b.Done():
		}
		stopCtx, cancel := context.WithTimeout(context.Background(), c.stopTime)
		if err := d.Stop(stopCtx); err != nil {
			c.log.Warn("the last batches of a queue were not settled; they are delivered again", "queue", c.settings.Queue, "error", fault.Detail(err))
		}
		cancel()
		lane.Close()
		c.mu.Lock()
		c.dispatcher = nil
		c.mu.Unlock()
	}
}

// lane opens the queue's lane.
func (c *consumer) lane(ctx context.Context, b *broker.Broker) (*broker.Lane, error) {
	if err := b.SetRetention(ctx, c.settings.Queue, c.settings.Retention); err != nil {
		return nil, err
	}
	return b.Lane(c.settings.Queue)
}

// serves reports whether the consumer is the one that a manifest asks for.
func (c *consumer) serves(databaseName string, settings *queue.Consumer) bool {
	return c.database.name == databaseName && c.settings == *settings
}

// SetRuntime sends the next batches to this runtime.
func (c *consumer) SetRuntime(r dispatch.Runtime, version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r = c.traces.Runtime(version, r)
	c.runtime, c.version, c.wake = r, version, nil
	if c.dispatcher != nil {
		c.dispatcher.SetRuntime(r, version)
	}
}

// ClearRuntime holds the queue back until the next SetRuntime.
func (c *consumer) ClearRuntime() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runtime, c.wake = nil, nil
	if c.dispatcher != nil {
		c.dispatcher.ClearRuntime()
	}
}

// Rest holds the queue back until the next SetRuntime, which wake, called for a message that can be delivered, brings about.
func (c *consumer) Rest(wake func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runtime, c.wake = nil, wake
	if c.dispatcher != nil {
		c.dispatcher.Rest(wake)
	}
}

// Idle reports whether nothing was delivered for that long and nothing is to be.
func (c *consumer) Idle(idle time.Duration) bool {
	c.mu.Lock()
	d := c.dispatcher
	c.mu.Unlock()
	return d != nil && d.Idle(idle)
}

// Calls are the handler calls of the queue, see dispatch.Dispatcher.Calls; none while the database is away.
func (c *consumer) Calls() (most, allowed int) {
	c.mu.Lock()
	d := c.dispatcher
	c.mu.Unlock()
	if d == nil {
		return 0, 0
	}
	return d.Calls()
}

// Stop takes no further batch, lets what is in flight finish within bounds, and waits. Twice is fine.
func (c *consumer) Stop() {
	c.stop()
	<-c.done
}
