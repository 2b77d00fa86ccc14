package crons

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/runlot/runlot/internal/adapter/postgres/crons/query"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/schedule"
)

// Options are what a Store needs. All fields are required.
type Options struct {
	// URL returns the address of the database, which has the schema runlot_queue; it is asked for each connection, since a
	// server may move.
	URL func(ctx context.Context) (string, error)
	Log *slog.Logger
}

// Store keeps the crons of one database. It may be used by several goroutines.
type Store struct {
	pool *pgxpool.Pool
	log  *slog.Logger
	// kept counts records, to prune now and then.
	kept atomic.Int64
}

var (
	_ schedule.Store   = (*Store)(nil)
	_ schedule.History = (*Store)(nil)
)

// New returns a store. It connects when it is first used.
func New(ctx context.Context, o Options) (*Store, error) {
	config, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, err
	}
	config.MaxConns, config.MaxConnIdleTime = queue.CronConnections, queue.CronConnectionIdle
	config.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) error {
		url, err := o.URL(ctx)
		if err != nil {
			return err
		}
		fresh, err := session.Parse(url)
		if err == nil {
			*c = *fresh
		}
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, session.Classify(err)
	}
	return &Store{pool: pool, log: o.Log}, nil
}

// Pool is what the store works with.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// Close ends every connection.
func (s *Store) Close() { s.pool.Close() }

// Declare implements schedule.Store.
func (s *Store) Declare(ctx context.Context, app string, crons []string) error {
	return s.together(ctx, func(q *query.Queries) error {
		if err := q.DeclareApp(ctx, app); err != nil {
			return err
		}
		return q.Declare(ctx, query.DeclareParams{App: app, Crons: crons})
	})
}

// Forget implements schedule.Store.
func (s *Store) Forget(ctx context.Context, app string, crons []string) error {
	return session.Classify(query.New(s.pool).Forget(ctx, query.ForgetParams{App: app, Crons: crons}))
}

// Look implements schedule.Store. The fence is read before the rest: whatever changes between the two raises it, and a
// claim on the view is refused then.
func (s *Store) Look(ctx context.Context, app string) (*schedule.View, error) {
	q := query.New(s.pool)
	head, err := q.Scheduler(ctx, app)
	if err != nil {
		return nil, session.Classify(err)
	}
	rows, err := q.Crons(ctx, app)
	if err != nil {
		return nil, session.Classify(err)
	}
	view := &schedule.View{Now: head.Now, Fence: head.Fence, Beat: head.Beat, Running: head.Running, Crons: make([]schedule.State, len(rows))}
	for i := range rows {
		r := &rows[i]
		view.Crons[i] = schedule.State{
			Cron: r.Cron, Since: r.Since, At: value(r.Occurrence), Attempt: int(r.Attempt), Missed: int(r.Missed),
			Phase: schedule.Phase(r.Phase), Try: value(r.TryAt), Node: r.Node, Began: value(r.BeganAt),
		}
	}
	return view, nil
}

// Claim implements schedule.Store.
func (s *Store) Claim(ctx context.Context, c *schedule.Claim) (int64, error) {
	var fence int64
	err := s.together(ctx, func(q *query.Queries) error {
		var err error
		fence, err = q.Claim(ctx, query.ClaimParams{App: c.App, Fence: c.Fence, Beat: c.Beat})
		if errors.Is(err, pgx.ErrNoRows) {
			return schedule.ErrTaken
		}
		if err != nil {
			return err
		}
		if c.Cron == "" {
			return nil
		}
		n, err := q.Begin(ctx, query.BeginParams{
			Occurrence: &c.At, Attempt: int32(c.Attempt), Missed: int32(c.Missed), Node: clean(c.Node), App: c.App, Cron: c.Cron,
		})
		if err != nil {
			return err
		}
		if n == 0 {
			return schedule.ErrTaken
		}
		if c.Lost == nil {
			return nil
		}
		return keep(ctx, q, c.Lost)
	})
	return fence, err
}

// Renew implements schedule.Store.
func (s *Store) Renew(ctx context.Context, app string, fence int64) error {
	n, err := query.New(s.pool).Renew(ctx, query.RenewParams{App: app, Fence: fence})
	if err == nil && n == 0 {
		return schedule.ErrTaken
	}
	return session.Classify(err)
}

// Finish implements schedule.Store.
func (s *Store) Finish(ctx context.Context, f *schedule.Finish) error {
	err := s.together(ctx, func(q *query.Queries) error {
		n, err := q.Finish(ctx, query.FinishParams{App: f.App, Fence: f.Fence})
		if err != nil {
			return err
		}
		if n == 0 {
			return schedule.ErrTaken
		}
		if err := q.End(ctx, query.EndParams{Attempt: int32(f.Attempt), TryAt: pointer(f.Try), App: f.App, Cron: f.Cron}); err != nil || f.Record == nil {
			return err
		}
		return keep(ctx, q, f.Record)
	})
	if err == nil && f.Record != nil {
		s.prune(ctx, f.Record)
	}
	return err
}

// Keep implements schedule.Store.
func (s *Store) Keep(ctx context.Context, r *schedule.Record) error {
	if err := keep(ctx, query.New(s.pool), r); err != nil {
		return session.Classify(err)
	}
	s.prune(ctx, r)
	return nil
}

// together runs statements in one transaction. An error that is schedule.ErrTaken stays it.
func (s *Store) together(ctx context.Context, run func(*query.Queries) error) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return run(query.New(tx)) })
	if errors.Is(err, schedule.ErrTaken) {
		return schedule.ErrTaken
	}
	return session.Classify(err)
}

func keep(ctx context.Context, q *query.Queries, r *schedule.Record) error {
	p := query.KeepParams{
		Occurrence: r.At, StartedAt: r.Start, RetryAt: pointer(r.Retry), DurationUs: r.Duration.Microseconds(),
		Attempt: int32(r.Attempt), Missed: int32(r.Missed), Manual: r.Manual, Outcome: string(r.Outcome),
		App: clean(r.App), Cron: clean(r.Cron), Version: clean(r.Version), Node: clean(r.Node), Reason: clean(r.Reason),
	}
	if e := r.Error; e != nil {
		name, message, location, stack := clean(e.Name), clean(e.Message), clean(e.Location), clean(e.Stack)
		p.ErrorName, p.ErrorMessage, p.ErrorLocation, p.ErrorStack = &name, &message, &location, &stack
	}
	return q.Keep(ctx, p)
}

// prune deletes records beyond what is kept, now and then. When it fails, the next time does it.
func (s *Store) prune(ctx context.Context, r *schedule.Record) {
	if s.kept.Add(1)%queue.RunPruneEvery != 1 {
		return
	}
	q := query.New(s.pool)
	err := q.PruneMany(ctx, query.PruneManyParams{App: r.App, Cron: r.Cron, Kept: queue.RunsKept, Step: queue.RunPruneRows})
	if err == nil {
		retention := pgtype.Interval{Microseconds: queue.RunRetention.Microseconds(), Valid: true}
		err = q.PruneOld(ctx, query.PruneOldParams{Step: queue.RunPruneRows, Retention: retention})
	}
	if err != nil {
		s.log.Warn("old records of scheduled runs could not be deleted", "error", fault.Detail(session.Classify(err)))
	}
}

// clean makes a text one that PostgreSQL stores: UTF-8 without NUL, and not longer than what is kept of it.
func clean(text string) string {
	if len(text) > queue.RunTextBytes {
		text = text[:queue.RunTextBytes]
		for len(text) > 0 {
			if r, size := utf8.DecodeLastRuneInString(text); r != utf8.RuneError || size > 1 {
				break
			}
			text = text[:len(text)-1]
		}
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "�"), "\x00", "�")
}

func value(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

func pointer(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
