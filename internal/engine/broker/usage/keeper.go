package usage

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/span"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// Keeper writes what a meter has counted, and tells who has to know of it.
type Keeper struct {
	meter    *Meter
	store    store.Account
	observer Observer
	log      *slog.Logger
	// closed is until when SQL was told that it may not send; zero when it may. told is set once SQL was told anything: what
	// an earlier owner told it is not known.
	closed time.Time
	told   bool
}

// NewKeeper returns the keeper of a meter. Observer may be nil.
func NewKeeper(m *Meter, account store.Account, observer Observer, log *slog.Logger) *Keeper {
	return &Keeper{meter: m, store: account, observer: observer, log: log}
}

// Begin loads the counts that the store has kept.
func (k *Keeper) Begin(ctx context.Context) error {
	entries, err := k.store.Usage(ctx)
	if err != nil {
		return fmt.Errorf("load the operation counts: %w", err)
	}
	k.meter.Load(entries)
	return nil
}

// Loop writes what was counted within queue.UsageEvery, until ctx ends. What may not wait is written at once.
func (k *Keeper) Loop(ctx context.Context) {
	timer := time.NewTimer(queue.UsageEvery)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.meter.kick:
			if !k.meter.hurry() {
				timer.Reset(queue.UsageEvery)
				continue
			}
			timer.Stop()
		case <-timer.C:
		}
		if err := k.Save(ctx); err != nil && ctx.Err() == nil {
			k.log.Warn("cannot write the operation counts; trying again", "error", fault.Detail(err), "after", span.Text(queue.StoreRetryMax))
			timer.Reset(queue.StoreRetryMax)
		}
	}
}

// Save writes what was counted and tells what is due, if there is anything. Only one call at a time.
func (k *Keeper) Save(ctx context.Context) error {
	w, ok := k.meter.due(time.Now())
	if !ok {
		return nil
	}
	err := k.store.SaveUsage(ctx, w.entries, w.keep)
	if err == nil {
		err = k.tellSQL(ctx, &w)
	}
	if err != nil {
		k.meter.again(&w)
		return fmt.Errorf("save the operation counts: %w", err)
	}
	for i := range w.alerts {
		a := &w.alerts[i]
		k.log.Warn("the queues use up their operations of the day", "percent", a.Percent, "used", a.Used, "cap", a.Cap, "resets", a.Resets)
		if k.observer != nil {
			k.observer.OperationsAlert(*a)
		}
	}
	return nil
}

// tellSQL has SQL's sends refused as the meter refuses those of Workers, when that has changed.
func (k *Keeper) tellSQL(ctx context.Context, w *task) error {
	if k.told && w.closed.Equal(k.closed) {
		return nil
	}
	refusal := store.Refusal{Code: queue.CodeOperationsCap, Until: w.closed}
	if !w.closed.IsZero() {
		f := capFault(w.dailyCap, dayOf(w.closed)-1)
		refusal.Message, refusal.Hint = f.Message, f.Hint
	}
	if err := k.store.SetRefusal(ctx, refusal); err != nil {
		return fmt.Errorf("tell SQL of the daily cap: %w", err)
	}
	k.closed, k.told = w.closed, true
	return nil
}
