// Package pulls keeps an engine for pulls beside each broker that is pulled from.
package pulls

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/broker/operate"
	"github.com/runlot/runlot/internal/engine/pull"
)

// Keeper makes an engine for a broker that is pulled from for the first time, and stops it when the broker has ended. Each
// has a goroutine that waits for that.
type Keeper struct {
	key []byte

	mu      sync.Mutex
	engines map[*broker.Broker]*pull.Engine // guarded by mu
	ending  sync.WaitGroup
}

// New returns a keeper. The key signs the ids of leases.
func New(key []byte) *Keeper { return &Keeper{key: key, engines: map[*broker.Broker]*pull.Engine{}} }

// Engine is the one beside a broker.
func (k *Keeper) Engine(ctx context.Context, b *broker.Broker) *pull.Engine {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.engines[b]; e != nil {
		return e
	}
	e := pull.New(pull.Options{Broker: port{b}, Key: k.key})
	e.Start(ctx)
	k.engines[b] = e
	k.ending.Go(func() {
		<-b.Done()
		e.Stop()
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.engines, b)
	})
	return e
}

// Stop ends what waits for a message, and every lease.
func (k *Keeper) Stop() {
	k.mu.Lock()
	engines := slices.Collect(maps.Values(k.engines))
	k.mu.Unlock()
	for _, e := range engines {
		e.Stop()
	}
}

// Wait returns when every engine has stopped. The brokers are stopped before.
func (k *Keeper) Wait() { k.ending.Wait() }

// port is a broker as an engine takes it.
type port struct{ *broker.Broker }

var _ pull.Broker = port{}

// Lane implements pull.Broker.
func (p port) Lane(queueName string) (pull.Lane, error) { return p.Broker.Lane(queueName) }

// Acknowledge implements pull.Broker.
func (p port) Acknowledge(ctx context.Context, queueName string, receipts []pull.Receipt) (leased, missing []queue.ID, err error) {
	list := make([]operate.Receipt, len(receipts))
	for i := range receipts {
		list[i] = operate.Receipt(receipts[i])
	}
	done, err := p.Broker.Acknowledge(ctx, queueName, list)
	return done.InFlight, done.Missing, err
}
