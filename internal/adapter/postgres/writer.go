package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/runlot/runlot/internal/adapter/postgres/query"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// operation is one write in one transaction, with what it takes to tell the truth about it when the connection breaks
// before the server's answer arrives.
type operation struct {
	run func(ctx context.Context, w *writer) error
	// landed looks whether the transaction was committed, after its session is gone. Nil: running it again gives the same.
	landed func(ctx context.Context, w *writer) (bool, error)
	// undo takes back what was committed, for a caller who stopped waiting and was told that nothing was changed. It runs
	// before the writer's next operation. Nil: there is nothing that may be taken back.
	undo func(ctx context.Context, w *writer) error
}

// writer is one session that writes, and its successors after a broken connection. One operation runs at a time.
type writer struct {
	store  *Store
	tenure *tenure
	// slot is held while an operation runs; a retired writer holds it for good.
	slot    chan struct{}
	retired bool
	conn    *pgx.Conn
	// session names conn's backend, or that of the connection that broke last.
	session query.EndSessionParams
	undo    func(ctx context.Context, w *writer) error
	frame   frame
}

func newWriter(s *Store, t *tenure) *writer {
	return &writer{store: s, tenure: t, slot: make(chan struct{}, 1)}
}

// add runs an operation on the session that adds messages.
func (s *Store) add(ctx context.Context, op operation) error {
	t := s.tenure.Load()
	if t == nil {
		return ownershipLost()
	}
	return t.adder.do(ctx, op)
}

// settle runs a repeatable operation on the session that settles messages.
func (s *Store) settle(ctx context.Context, run func(ctx context.Context, w *writer) error) error {
	t := s.tenure.Load()
	if t == nil {
		return ownershipLost()
	}
	return t.settler.do(ctx, operation{run: run})
}

// do runs op and returns nil if it was committed. When the connection breaks under it, do opens another, makes sure that
// the old session is gone, and looks; an operation that did not land runs again. All of it ends with ctx or with the
// ownership.
func (w *writer) do(ctx context.Context, op operation) error {
	select {
	case w.slot <- struct{}{}:
	case <-ctx.Done():
		return session.Unavailable(ctx.Err())
	case <-w.tenure.held.Done():
		return ownershipLost()
	}
	defer func() { <-w.slot }()
	// A select picks any case that is ready; an operation that begins after the end of the ownership must not begin.
	if w.tenure.held.Err() != nil {
		return ownershipLost()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.tenure.held, cancel)() //nolint:contextcheck // the end of the ownership ends the operation too

	if err := w.open(ctx); err != nil {
		return w.verdict(err)
	}
	wait := queue.StoreRetryFirst
	for {
		err := op.run(ctx, w)
		if err == nil || !w.broken() {
			return w.verdict(err)
		}
		landed, doubt := w.look(ctx, op, &wait)
		switch {
		case doubt != nil:
			w.undo = op.undo
			return w.verdict(errors.Join(err, doubt))
		case landed:
			return nil
		}
		if err := session.Pause(ctx, wait); err != nil {
			return w.verdict(err)
		}
	}
}

// look finds out whether op landed, trying until it knows or ctx ends.
func (w *writer) look(ctx context.Context, op operation, wait *time.Duration) (landed bool, err error) {
	for {
		if err = w.open(ctx); err == nil {
			if op.landed == nil {
				return false, nil
			}
			if landed, err = op.landed(ctx, w); err == nil {
				return landed, nil
			}
		}
		if final(err) || session.Pause(ctx, *wait) != nil {
			return false, err
		}
		*wait = min(2**wait, queue.StoreRetryMax)
	}
}

// broken reports whether the connection died, so that the fate of what was sent last is unknown.
func (w *writer) broken() bool { return w.conn.IsClosed() }

// verdict gives err its place in the contract. A write that failed because the ownership ended says so.
func (w *writer) verdict(err error) error {
	if err != nil && w.tenure.held.Err() != nil {
		return ownershipLost().WithCause(err)
	}
	return session.Classify(err)
}

// open makes sure that conn is a live session of the current ownership and that no earlier session of this writer is left.
func (w *writer) open(ctx context.Context) error {
	if w.conn != nil && !w.conn.IsClosed() {
		return nil
	}
	conn, err := session.Open(ctx, w.store.config, w.tenure.name())
	if err != nil {
		return err
	}
	if err := w.adopt(ctx, conn); err != nil {
		session.Close(ctx, conn)
		return err
	}
	return nil
}

// adopt prepares conn and makes it the writer's. The epoch is read under the session's name: a new owner that raised it
// before this session came up is seen here; one that raises it later finds the session and ends it.
func (w *writer) adopt(ctx context.Context, conn *pgx.Conn) error {
	q := query.New(conn)
	if w.session.Pid.Valid {
		if err := endSession(ctx, q, w.session); err != nil {
			return err
		}
	}
	own, err := q.Session(ctx)
	if err != nil {
		return err
	}
	if own.Epoch != w.tenure.epoch {
		return ownershipLost()
	}
	w.session = query.EndSessionParams{Pid: own.Pid, BackendStart: own.BackendStart}
	// A role or a database may have switched it off; an acknowledged message survives a power cut all the same.
	if _, err := conn.Exec(ctx, "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"); err != nil {
		return err
	}
	for name, sql := range statements {
		if _, err := conn.Prepare(ctx, name, sql); err != nil {
			return err
		}
	}
	w.conn = conn
	if w.undo != nil {
		if err := w.undo(ctx, w); err != nil {
			return err
		}
		w.undo = nil
	}
	return nil
}

// endSession ends one session and returns when it is gone.
func endSession(ctx context.Context, q *query.Queries, session query.EndSessionParams) error {
	for {
		found, err := q.EndSession(ctx, session)
		if err != nil || len(found) == 0 {
			return err
		}
	}
}

// retire lets the operation under way end, as long as ctx allows, and accepts none any more. What an earlier operation
// left to take back is taken back.
func (w *writer) retire(ctx context.Context) {
	select {
	case w.slot <- struct{}{}:
		w.retired = true
	case <-ctx.Done():
		return
	}
	if w.undo == nil || w.tenure.held.Err() != nil {
		return
	}
	if err := w.open(ctx); err != nil {
		w.store.log.WarnContext(ctx, "a send that was given up may have been committed", "cause", err)
	}
}

// close ends the session; the ownership has ended, which cuts off an operation that is still under way.
func (w *writer) close(ctx context.Context) {
	if !w.retired {
		w.slot <- struct{}{}
		w.retired = true
	}
	if w.conn != nil {
		session.Close(ctx, w.conn)
	}
}

// final reports whether another try cannot help, because the ownership is lost or the server answered with an error that
// is no passing state.
func final(err error) bool { return fault.KindOf(session.Classify(err)) != fault.Unavailable }
