package control

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/runlot/runlot/internal/adapter/postgres/control/query"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// CodeHeld is the code of the fault for records that another celld uses.
const CodeHeld = "celld_elsewhere"

// holderLock is the advisory lock of a database whose holder is the celld that uses its records: the first eight bytes of
// "runlotce" in ASCII. It never changes.
const holderLock = int64(0x72756e6c6f746365)

// Holder is the use of the records by one celld: what it runs follows from them, and from nothing that another one changes.
type Holder struct {
	s    *Store
	node string
	log  *slog.Logger

	stop context.CancelFunc
	done sync.WaitGroup
	// lost is closed when another celld has taken the records, err says so.
	lost chan struct{}
	err  error // read after lost is closed
}

// Hold makes a celld the one that uses the records. node names it by what no two that run have in common: its host and its
// folder. What is left of an earlier run of the same one is ended. Another one is waited for, as at its stop, as long as
// patience says. Faults: Conflict (CodeHeld), Unavailable.
func (s *Store) Hold(ctx context.Context, node string, patience time.Duration, log *slog.Logger) (*Holder, error) {
	h := &Holder{s: s, node: node, log: log, lost: make(chan struct{})}
	conn, err := h.take(ctx, patience)
	if err != nil {
		return nil, err
	}
	keep, stop := context.WithCancel(context.WithoutCancel(ctx))
	h.stop = stop
	h.done.Go(func() { h.keep(keep, conn) })
	return h, nil
}

// Lost is closed when another celld has taken the records, after their database was away. Err says so then.
func (h *Holder) Lost() <-chan struct{} { return h.lost }

// Err is why the records are lost.
func (h *Holder) Err() error { return h.err }

// Release lets another celld use the records.
func (h *Holder) Release() {
	h.stop()
	h.done.Wait()
}

// take opens a session that holds the lock.
func (h *Holder) take(ctx context.Context, patience time.Duration) (*pgx.Conn, error) {
	config, err := locate(ctx, h.s.address)
	if err != nil {
		return nil, err
	}
	conn, err := session.Open(ctx, config, session.IdleName)
	if err != nil {
		return nil, err
	}
	if err := h.lock(ctx, conn, patience); err != nil {
		session.Close(ctx, conn)
		return nil, session.Classify(err)
	}
	return conn, nil
}

func (h *Holder) lock(ctx context.Context, conn *pgx.Conn, patience time.Duration) error {
	q := query.New(conn)
	began := time.Now()
	for {
		var got bool
		if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", holderLock).Scan(&got); err != nil {
			return err
		}
		if got {
			return q.BecomeHolder(ctx, h.node)
		}
		holder, err := q.Holder(ctx)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) { // it has the lock, and has not said who it is
			return err
		}
		switch {
		case err == nil && holder.Node == h.node:
			// The folder is ours, so that the process is gone and its session is all that is left.
			if _, err := q.EndHolder(ctx, query.EndHolderParams{Pid: &holder.Pid, BackendStart: &holder.BackendStart}); err != nil {
				return err
			}
		case time.Since(began) >= patience:
			return held(&holder)
		}
		if err := session.Pause(ctx, queue.StoreAcquireEvery); err != nil {
			return session.Unavailable(err)
		}
	}
}

func held(h *query.HolderRow) error {
	return fault.New(fault.Conflict, CodeHeld, "another celld uses this database for its apps: %s, since %s", h.Node, h.Since.UTC().Format("2006-01-02 15:04:05 UTC")).
		WithHint("stop that one first; two at a time need a database each: --database-url celld=postgres://… beside those of the apps")
}

// keep watches the session, and takes the lock anew when it has ended, unless another celld was faster.
func (h *Holder) keep(ctx context.Context, conn *pgx.Conn) {
	for {
		err := watch(ctx, conn)
		session.Close(ctx, conn)
		if ctx.Err() != nil {
			return
		}
		h.log.Warn("the database of the apps is away", "cause", err)
		if conn, err = h.retake(ctx); err != nil {
			if ctx.Err() == nil {
				h.err = err
				close(h.lost)
			}
			return
		}
		h.log.Info("the database of the apps is back")
	}
}

func (h *Holder) retake(ctx context.Context) (*pgx.Conn, error) {
	wait := queue.Backoff{First: queue.StoreRetryFirst, Max: queue.StoreRetryMax}
	for try := 1; ; try++ {
		if err := session.Pause(ctx, wait.Delay(try)); err != nil {
			return nil, err
		}
		conn, err := h.take(ctx, 0)
		if err == nil || fault.From(err).Code == CodeHeld {
			return conn, err
		}
	}
}

// watch returns when a session has ended or does not answer any more.
func watch(ctx context.Context, conn *pgx.Conn) error {
	for {
		wait, cancel := context.WithTimeout(ctx, queue.StorePingEvery)
		err := conn.PgConn().WaitForNotification(wait)
		cancel()
		if err != nil && pgconn.Timeout(err) && ctx.Err() == nil {
			wait, cancel = context.WithTimeout(ctx, queue.StorePingTime)
			err = conn.Ping(wait)
			cancel()
		}
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}
