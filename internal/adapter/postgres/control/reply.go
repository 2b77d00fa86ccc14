package control

import (
	"context"
	"crypto/sha256"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/runlot/runlot/internal/adapter/postgres/control/query"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/reply"
)

// Replies implements reply.Store.
type Replies struct {
	s *Store
	// begun counts calls, to prune now and then.
	begun atomic.Int64
}

var _ reply.Store = (*Replies)(nil)

// Replies returns what remembers the answers to calls.
func (s *Store) Replies() *Replies { return &Replies{s: s} }

func repliesKept() pgtype.Interval {
	return pgtype.Interval{Microseconds: queue.RepliesKept.Microseconds(), Valid: true}
}

// Begin implements reply.Store.
func (r *Replies) Begin(ctx context.Context, key reply.Key, call *reply.Call) (*reply.Call, error) {
	q := r.s.read()
	if r.begun.Add(1)%queue.ReplyPruneEvery == 1 {
		if err := q.PruneReplies(ctx, query.PruneRepliesParams{Kept: repliesKept(), Most: queue.KeptReplies}); err != nil {
			return nil, session.Classify(err)
		}
	}
	for {
		n, err := q.BeginReply(ctx, query.BeginReplyParams{Key: key[:], Digest: call.Digest[:], Node: call.Node, Boot: call.Boot, Kept: repliesKept()})
		if err != nil {
			return nil, session.Classify(err)
		}
		if n > 0 {
			return nil, nil //nolint:nilnil // nothing is known, which is no error
		}
		row, err := q.Reply(ctx, key[:])
		if missing(err) {
			continue // it was forgotten between the two
		}
		if err != nil {
			return nil, session.Classify(err)
		}
		known := &reply.Call{Digest: [sha256.Size]byte(row.Digest), Node: row.Node, Boot: row.Boot, Answer: row.Answer}
		if row.Status != nil {
			known.Status = int(*row.Status)
		}
		return known, nil
	}
}

// End implements reply.Store.
func (r *Replies) End(ctx context.Context, key reply.Key, status int, answer []byte) error {
	code := int32(status)
	return session.Classify(r.s.read().EndReply(ctx, query.EndReplyParams{Status: &code, Answer: answer, Key: key[:]}))
}

// Drop implements reply.Store.
func (r *Replies) Drop(ctx context.Context, key reply.Key) error {
	return session.Classify(r.s.read().DropReply(ctx, key[:]))
}
