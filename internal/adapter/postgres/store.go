package postgres

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/runlot/runlot/internal/adapter/postgres/look"
	"github.com/runlot/runlot/internal/adapter/postgres/query"
	"github.com/runlot/runlot/internal/adapter/postgres/schema"
	"github.com/runlot/runlot/internal/adapter/postgres/search"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/adapter/postgres/undo"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// Options says which database a Store keeps its messages in.
type Options struct {
	// URL is a PostgreSQL connection string, as a URL or as key=value pairs. Its role owns the schema runlot_queue.
	URL string
	// AppRole may call runlot_queue.send and read runlot_queue.messages, and nothing else. "" grants nothing.
	AppRole string
	// Node is the name under which this node takes ownership, for a person to read.
	Node string
	Log  *slog.Logger
}

// Store keeps the messages of one PostgreSQL database. It implements store.Store.
type Store struct {
	*search.Searcher
	*undo.Reader
	*look.Looker

	config  *pgx.ConnConfig
	node    string
	log     *slog.Logger
	readers *pgxpool.Pool
	// acquiring is held while an Acquire or a Release is under way.
	acquiring chan struct{}
	tenure    atomic.Pointer[tenure]
}

var _ store.Store = (*Store)(nil)

// Open brings the schema up to date, grants AppRole its rights and returns the store. What the server must be like is for
// package preflight to judge before. It fails with a fault of kind Environment for what an operator can mend, and Unavailable when the server does not answer.
func Open(ctx context.Context, o Options) (*Store, error) {
	config, err := session.Parse(o.URL)
	if err != nil {
		return nil, err
	}
	if err := schema.Prepare(ctx, config, o.AppRole); err != nil {
		return nil, err
	}
	s := &Store{config: config, node: o.Node, log: o.Log, acquiring: make(chan struct{}, 1)}
	pool, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, err
	}
	pool.ConnConfig = config.Copy()
	pool.MaxConns = queue.StoreReaders
	pool.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		if t := s.tenure.Load(); t != nil {
			c.RuntimeParams["application_name"] = t.name()
		}
		return nil
	}
	if s.readers, err = pgxpool.NewWithConfig(ctx, pool); err != nil {
		return nil, session.Classify(err)
	}
	s.Reader, s.Looker = undo.NewReader(s.readers), look.New(s.readers)
	s.Searcher, err = search.Open(ctx, config)
	return s, err
}

// Readers is what reads.
func (s *Store) Readers() *pgxpool.Pool { return s.readers }

// Close gives the ownership back, if it is held, and ends every session. Calling it twice is fine.
func (s *Store) Close(ctx context.Context) error {
	err := s.Release(ctx)
	s.readers.Close()
	s.Searcher.Close()
	return err
}

// Queues returns every queue.
func (s *Store) Queues(ctx context.Context) ([]store.QueueInfo, error) {
	rows, err := query.New(s.readers).Queues(ctx)
	if err != nil {
		return nil, session.Classify(err)
	}
	infos := make([]store.QueueInfo, len(rows))
	for i := range rows {
		infos[i] = queueInfo(&rows[i])
	}
	return infos, nil
}

// Declare makes sure that the queues exist and returns them, in the order given.
func (s *Store) Declare(ctx context.Context, names []string) ([]store.QueueInfo, error) {
	for _, name := range names {
		if !queue.ValidName(name) {
			return nil, fault.New(fault.Invalid, "queue_name", "queue name %s is not valid", strconv.Quote(name)).WithHint("%s", queue.NameRule)
		}
	}
	byName := make(map[string]store.QueueInfo, len(names))
	err := s.settle(ctx, func(ctx context.Context, w *writer) error {
		q := query.New(w.conn)
		if err := q.Declare(ctx, names); err != nil {
			return err
		}
		rows, err := q.QueuesByName(ctx, names)
		for i := range rows {
			row := query.QueuesRow(rows[i])
			byName[row.Name] = queueInfo(&row)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	infos := make([]store.QueueInfo, len(names))
	for i, name := range names {
		infos[i] = byName[name]
	}
	return infos, nil
}

// Reserve records that Seqs below limit may have been assigned.
func (s *Store) Reserve(ctx context.Context, limit int64) error {
	return s.add(ctx, operation{run: func(ctx context.Context, w *writer) error {
		n, err := query.New(w.conn).Reserve(ctx, query.ReserveParams{NextSeq: limit, Epoch: w.tenure.epoch})
		if err == nil && n == 0 {
			return ownershipLost()
		}
		return err
	}})
}

// SaveMarks stores marks.
func (s *Store) SaveMarks(ctx context.Context, marks []store.Mark) error {
	var p query.SaveMarksParams
	for _, m := range marks {
		p.QueueIds = append(p.QueueIds, m.Queue)
		p.ReadyMarks = append(p.ReadyMarks, m.ReadyMark)
		p.DueMarks = append(p.DueMarks, time.UnixMilli(m.DueMark))
	}
	return s.settle(ctx, func(ctx context.Context, w *writer) error {
		return query.New(w.conn).SaveMarks(ctx, p)
	})
}
