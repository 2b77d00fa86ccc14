package operate

import (
	"context"
	"time"

	"github.com/runlot/runlot/internal/core/filter"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/look"
	"github.com/runlot/runlot/internal/engine/broker/undo"
)

type (
	// State is that of package look.
	State = look.State
	// Message is that of package look.
	Message = look.Message
	// PeekOptions are those of package look.
	PeekOptions = look.PeekOptions
	// Page is that of package look.
	Page = look.Page
)

// The states of a message.
const (
	Any      = look.Any
	Visible  = look.Visible
	Delayed  = look.Delayed
	InFlight = look.InFlight
)

// Undoable is that of undo.Keeper.
func (o *Operator) Undoable(ctx context.Context, queueName string) ([]undo.Action, error) {
	return o.undo.Undoable(ctx, queueName)
}

// Undo is that of undo.Keeper.
func (o *Operator) Undo(ctx context.Context, queueName, action string, may func(queueName string) bool) (undo.Undone, error) {
	return o.undo.Undo(ctx, queueName, action, may)
}

// Peek is that of look.Looker.
func (o *Operator) Peek(ctx context.Context, queueName string, p PeekOptions) (Page, error) {
	return o.look.Peek(ctx, queueName, p)
}

// Message is that of look.Looker.
func (o *Operator) Message(ctx context.Context, queueName string, id queue.ID) (Message, error) {
	return o.look.Message(ctx, queueName, id)
}

// Search is that of look.Looker.
func (o *Operator) Search(ctx context.Context, queueName string, s look.SearchOptions) (look.Found, error) {
	return o.look.Search(ctx, queueName, s)
}

// Matching is Count of look.Looker.
func (o *Operator) Matching(ctx context.Context, queueName string, f filter.Filter, within time.Duration) (look.Counted, error) {
	return o.look.Count(ctx, queueName, f, within)
}
