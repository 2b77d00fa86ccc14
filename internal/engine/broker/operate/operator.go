package operate

import (
	"context"
	"log/slog"
	"sync"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/engine/broker/backlog"
	"github.com/runlot/runlot/internal/engine/broker/look"
	"github.com/runlot/runlot/internal/engine/broker/pace"
	"github.com/runlot/runlot/internal/engine/broker/settings"
	"github.com/runlot/runlot/internal/engine/broker/store"
	"github.com/runlot/runlot/internal/engine/broker/undo"
)

// Owner is the broker whose queues are operated on.
type Owner interface {
	// LockSettles waits until no settlement is between the store and the lanes, and keeps others away until unlock. It fails
	// when ctx ends and when the broker does not run.
	LockSettles(ctx context.Context) (unlock func(), err error)
	// LockAll does the same for settlements and for new messages.
	LockAll(ctx context.Context) (unlock func(), err error)
	// Assign returns the first of n Seqs in a row. LockAll is held.
	Assign(n int) (int64, error)
	// LastSeq is the highest Seq that was assigned. LockAll is held.
	LastSeq() int64
	// Refusal is why the broker takes no more work; nil while it does.
	Refusal() error
	// Work ends with the broker, and what is over then is said by Over.
	Work() context.Context
	// Count adds to the operations of the day what was committed: chunks written and deleted.
	Count(written, deleted int64)
	// Over is why nothing more can be written after an error; nil while it can.
	Over(err error) error
}

// Options are what an Operator is made of. Every field but Expired is required.
type Options struct {
	Owner Owner
	Store store.Store
	Book  *backlog.Book
	Log   *slog.Logger
	// Rows is the most messages of one step, ExpireRows that of one step of deleting what outlived its retention.
	Rows       int
	ExpireRows int
	// Expired, when it is not nil, is told how many messages of a queue outlived their retention, after each step.
	Expired func(queueName string, n int)
}

// Operator carries out the verbs of an operator on the queues of one broker. Its methods may be called from several
// goroutines. All of them fail with kind NotFound (queue.CodeQueueNotFound) for a queue that does not exist, and with
// kind Unavailable while the broker does not run.
type Operator struct {
	*settings.Keeper

	o Options
	// undo takes back what was done.
	undo *undo.Keeper
	// look shows messages.
	look *look.Looker

	mu sync.Mutex
	// purging counts the calls of Purge by queue; the sweeper leaves their queues alone. mu guards it.
	purging map[int32]int
	// left holds a signal when a call of Purge has gone before the deletion was done.
	left chan struct{}
}

// New makes an operator.
func New(o Options) *Operator {
	keeper := settings.New(settings.Options{Owner: o.Owner, Store: o.Store, Book: o.Book})
	looker := look.New(o.Store, o.Book)
	undoer := undo.New(undo.Options{Owner: o.Owner, Store: o.Store, Book: o.Book, Look: looker, Rows: o.Rows})
	return &Operator{Keeper: keeper, o: o, undo: undoer, look: looker, purging: map[int32]int{}, left: make(chan struct{}, 1)}
}

// Codes of the faults of an operator's calls.
const (
	// CodeCursor and CodeMessageNotFound are those of package look.
	CodeCursor          = look.CodeCursor
	CodeMessageNotFound = look.CodeMessageNotFound
	// CodeTooManyIDs: one call names more than queue.OperateIDs messages.
	CodeTooManyIDs = "too_many_ids"
	// CodeNoSource: it is not known where a message came from, so that a redrive has to name its target.
	CodeNoSource = "redrive_no_source"
	// CodeOntoItself: a redrive would move messages to where they are.
	CodeOntoItself = "redrive_onto_itself"
	// CodeTargetForbidden: a redrive would move messages to where RedriveOptions.May does not let them go.
	CodeTargetForbidden = "redrive_target_forbidden"
)

// commit carries a change out, again and again while the store does not answer. With an error nothing was changed, or the
// broker is over.
func (o *Operator) commit(change *store.Change) error {
	if change.Note != nil {
		defer o.undo.Changed()
	}
	return o.insist(func(ctx context.Context) error { return o.o.Store.Apply(ctx, change) })
}

// insist calls write until the store answers.
func (o *Operator) insist(write func(ctx context.Context) error) error {
	return pace.Insist(o.o.Owner.Work(), o.o.Owner.Over, write)
}

// steps calls step until there is no more to do, again after a pause when the store does not answer a read. It ends with
// ctx or with the broker, between two steps.
func (o *Operator) steps(ctx context.Context, step func() (more bool, err error)) error {
	var wait pace.Backoff
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		more, err := step()
		switch {
		case err == nil && !more:
			return nil
		case err == nil:
			wait = pace.Backoff{}
			continue
		case o.o.Owner.Over(err) != nil:
			return o.o.Owner.Over(err)
		case ctx.Err() != nil || fault.KindOf(err) != fault.Unavailable:
			return err
		}
		if err := wait.Wait(ctx); err != nil {
			return err
		}
	}
}
