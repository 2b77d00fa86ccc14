package postgres

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/runlot/runlot/internal/adapter/postgres/query"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/adapter/postgres/usage"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// ownerLock is the advisory lock of a database whose holder is the owner: the first eight bytes of "runlotow" in ASCII. It
// never changes.
const ownerLock = int64(0x72756e6c6f746f77)

// tenure is one ownership, from Acquire until its session ends.
type tenure struct {
	epoch int64
	conn  *pgx.Conn
	// held ends when the ownership is gone; writes under way are cut off by it.
	held context.Context //nolint:containedctx // the life of the ownership is what it stands for
	lose context.CancelFunc
	// watch ends when the goroutine that watches the session is to stop.
	stopWatch context.CancelFunc
	watch     sync.WaitGroup
	adder     *writer
	settler   *writer
	// inbox is used by the adder alone.
	inbox inboxMark
	// swept is used by the settler alone.
	swept *usage.Swept
}

func (t *tenure) name() string { return session.OwnerName + strconv.FormatInt(t.epoch, 10) }

// Acquire makes the caller the owner. It asks for the lock again and again instead of waiting inside the server, where
// a waiting statement would keep a snapshot open and with it every dead row of the database. What this store held before
// is released first.
func (s *Store) Acquire(ctx context.Context) (store.Ownership, error) {
	if err := s.Release(ctx); err != nil {
		return store.Ownership{}, err
	}
	if err := s.enter(ctx); err != nil {
		return store.Ownership{}, err
	}
	defer s.leave()
	conn, err := session.Open(ctx, s.config, session.IdleName)
	if err != nil {
		return store.Ownership{}, err
	}
	own, err := s.takeOver(ctx, conn)
	if err != nil {
		session.Close(ctx, conn)
		return store.Ownership{}, session.Classify(err)
	}
	return own, nil
}

func (s *Store) takeOver(ctx context.Context, conn *pgx.Conn) (store.Ownership, error) {
	patience, cancel := context.WithTimeout(ctx, queue.StoreAcquireTime)
	err := session.Lock(patience, conn, ownerLock)
	cancel()
	if err != nil {
		return store.Ownership{}, err
	}
	q := query.New(conn)
	row, err := q.TakeOver(ctx, s.node)
	if err != nil {
		return store.Ownership{}, err
	}
	t := &tenure{epoch: row.Epoch, conn: conn, swept: usage.NewSwept()}
	if _, err := conn.Exec(ctx, "SELECT set_config('application_name', $1, false)", t.name()); err != nil {
		return store.Ownership{}, err
	}
	if err := endEarlier(ctx, q, row.Epoch); err != nil {
		return store.Ownership{}, err
	}
	t.held, t.lose = context.WithCancel(context.WithoutCancel(ctx))
	t.adder, t.settler = newWriter(s, t), newWriter(s, t)
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	t.stopWatch = stop
	t.watch.Go(func() { s.watchSession(watching, t) })
	s.tenure.Store(t)
	s.readers.Reset()
	return store.Ownership{Store: uint64(row.StoreID), Epoch: row.Epoch, NextSeq: row.NextSeq, Lost: t.held.Done()}, nil
}

// endEarlier ends the sessions of earlier owners and returns when none is left. A session opened later under an earlier
// epoch finds the epoch raised and refuses to write, see writer.open.
func endEarlier(ctx context.Context, q *query.Queries, epoch int64) error {
	for {
		sessions, err := q.OwnerSessions(ctx)
		if err != nil {
			return err
		}
		left := 0
		for _, other := range sessions {
			theirs, err := strconv.ParseInt(strings.TrimPrefix(other.Name, session.OwnerName), 10, 64)
			if err != nil || theirs >= epoch {
				continue
			}
			left++
			if _, err := q.EndSession(ctx, query.EndSessionParams{Pid: other.Pid, BackendStart: other.BackendStart}); err != nil {
				return err
			}
		}
		if left == 0 {
			return nil
		}
		if err := session.Pause(ctx, queue.StoreRetryFirst); err != nil {
			return session.Unavailable(err)
		}
	}
}

// watchSession closes t.held as soon as the session that holds the lock has ended. A session that ends is noticed at
// once, because it is read from all the time; one that silently stopped to answer, by a ping.
func (s *Store) watchSession(ctx context.Context, t *tenure) {
	defer t.lose()
	for {
		wait, cancel := context.WithTimeout(ctx, queue.StorePingEvery)
		err := t.conn.PgConn().WaitForNotification(wait)
		cancel()
		if err != nil && pgconn.Timeout(err) && ctx.Err() == nil {
			wait, cancel = context.WithTimeout(ctx, queue.StorePingTime)
			err = t.conn.Ping(wait)
			cancel()
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.log.WarnContext(ctx, "the ownership of the queues is lost", "epoch", t.epoch, "cause", err)
			return
		}
	}
}

// Release gives the ownership back: it waits for the writes under way until ctx ends, then cuts them off. Calling it
// twice is fine.
func (s *Store) Release(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	t := s.tenure.Swap(nil)
	if t == nil {
		return nil
	}
	t.adder.retire(ctx)
	t.settler.retire(ctx)
	t.lose()
	t.adder.close(ctx)
	t.settler.close(ctx)
	t.stopWatch()
	t.watch.Wait()
	session.Close(ctx, t.conn)
	return nil
}

// enter waits for an Acquire or a Release under way. Where there is none it succeeds even when ctx has ended, so that a
// Release whose time is over still ends the sessions.
func (s *Store) enter(ctx context.Context) error {
	select {
	case s.acquiring <- struct{}{}:
		return nil
	default:
	}
	select {
	case s.acquiring <- struct{}{}:
		return nil
	case <-ctx.Done():
		return session.Unavailable(ctx.Err())
	}
}

func (s *Store) leave() { <-s.acquiring }

func ownershipLost() *fault.Error {
	return fault.New(fault.Conflict, store.CodeOwnershipLost, "this node does not own the queues of the database")
}
