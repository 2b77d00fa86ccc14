package peer

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/runlot/runlot/bench/measure"
)

// River works off no-op jobs with the settings of its own benchmark command. The jobs are inserted before the clock
// starts, so its figure leaves out what ours contains: the sends.
type River struct {
	pool *pgxpool.Pool
	pid  int
}

const (
	// riverRate is more jobs a second than River works off on any machine that we know of, per core; jobs for a whole round
	// are inserted at this rate.
	riverRate     = 10_000
	riverSessions = 15
	riverWorkers  = 2_000
	riverInsert   = 5_000
)

// RiverArgs is a job.
type RiverArgs struct {
	Pad string `json:"pad"`
}

// Kind implements river.JobArgs.
func (RiverArgs) Kind() string { return "noop" }

type riverWorker struct {
	river.WorkerDefaults[RiverArgs]
}

func (riverWorker) Work(context.Context, *river.Job[RiverArgs]) error { return nil }

// NewRiver makes River's schema in an empty database.
func NewRiver(ctx context.Context, url string, pid int) (*River, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = riverSessions
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	r := &River{pool: pool, pid: pid}
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return r, nil
}

// Close ends the sessions.
func (r *River) Close(context.Context) error {
	r.pool.Close()
	return nil
}

// Measure counts jobs that were completed.
func (r *River) Measure(ctx context.Context, w measure.Window) (measure.Sample, error) {
	if _, err := r.pool.Exec(ctx, `TRUNCATE river_job`); err != nil {
		return measure.Sample{}, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{})
	client, err := river.NewClient(riverpgxv5.New(r.pool), &river.Config{
		FetchCooldown:     2 * time.Millisecond,
		FetchPollInterval: 20 * time.Millisecond,
		Logger:            slog.New(slog.DiscardHandler),
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: riverWorkers}},
		Workers:           workers,
	})
	if err != nil {
		return measure.Sample{}, err
	}
	jobs, err := r.insert(ctx, client, w)
	if err != nil {
		return measure.Sample{}, fmt.Errorf("insert: %w", err)
	}
	events, unsubscribe := client.SubscribeConfig(&river.SubscribeConfig{ChanSize: jobs, Kinds: []river.EventKind{river.EventKindJobCompleted}})
	var completed atomic.Int64
	var counting sync.WaitGroup
	counting.Go(func() {
		for range events {
			completed.Add(1)
		}
	})
	defer counting.Wait()
	defer unsubscribe()
	if err := client.Start(ctx); err != nil {
		return measure.Sample{}, err
	}
	w.Most = int64(jobs)
	sample, err := w.Count(ctx, completed.Load, r.pid)
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if stopErr := client.StopAndCancel(stopCtx); err == nil {
		err = stopErr
	}
	return sample, err
}

// insert adds enough jobs for a round and returns their number.
func (r *River) insert(ctx context.Context, client *river.Client[pgx.Tx], w measure.Window) (int, error) {
	params := make([]river.InsertManyParams, riverInsert)
	// With the frame of its JSON, the arguments have the bytes of a message.
	args := RiverArgs{Pad: strings.Repeat("x", len(Body)-len(`{"pad":""}`))}
	for i := range params {
		params[i].Args = args
	}
	jobs := 0
	for want := int((w.Warm + w.Long).Seconds() * riverRate * float64(runtime.NumCPU())); jobs < want; jobs += riverInsert {
		if _, err := client.InsertManyFast(ctx, params); err != nil {
			return 0, err
		}
	}
	_, err := r.pool.Exec(ctx, `ANALYZE river_job`)
	return jobs, err
}
