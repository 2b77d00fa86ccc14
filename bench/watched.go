package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/runlot/runlot/internal/adapter/postgres"
	minutes "github.com/runlot/runlot/internal/adapter/postgres/series"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/numbers"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/broker/metered"
	"github.com/runlot/runlot/internal/engine/series"
)

// watched is the engine with the numbers that charts and metrics are read from.
type watched struct {
	*engine
	recorder *series.Recorder
	minutes  *minutes.Store
}

func openWatched(ctx context.Context, s *server, url string) (subject, error) {
	return newWatched(ctx, s, url)
}

func newWatched(ctx context.Context, s *server, url string) (*watched, error) {
	store, err := postgres.Open(ctx, postgres.Options{URL: url, Node: "bench"})
	if err != nil {
		return nil, err
	}
	kept, err := minutes.Open(ctx, url)
	if err != nil {
		_ = store.Close(ctx)
		return nil, err
	}
	w := &watched{engine: &engine{store: store, pid: s.pid()}, minutes: kept}
	looks := &numbers.Looks{Broker: func() numbers.Broker { return w.broker }, Calls: func() map[string]numbers.Calls { return nil }}
	w.recorder = series.New(slog.New(slog.DiscardHandler), looks.Gauges)
	w.broker = broker.New(broker.Options{Store: metered.New(store, numbers.Meter{Recorder: w.recorder})})
	w.recorder.Start()
	w.recorder.Attach(kept)
	w.tally = w.recorder.Tally(jobs)
	if err = w.broker.Start(ctx); err == nil {
		err = w.broker.Declare(ctx, []string{jobs})
	}
	if err != nil {
		_ = w.Close(ctx)
		return nil, err
	}
	return w, nil
}

// Close implements subject.
func (w *watched) Close(ctx context.Context) error {
	stop, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	w.recorder.Stop(stop)
	w.minutes.Close()
	return w.engine.Close(ctx)
}

// count counts a batch that was acknowledged, as a dispatcher's recorder does.
func (e *engine) count(start time.Time, messages int) {
	e.tally.Batch(&series.Batch{Outcome: queue.OK, Duration: time.Since(start), Delivered: messages, Acked: messages})
}
