// Package operations is the calls about what is done in the background to many messages.
package operations

import (
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/filter"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/broker/operate"
	"github.com/runlot/runlot/internal/engine/operations"
	"github.com/runlot/runlot/internal/server/api/endpoint"
	"github.com/runlot/runlot/internal/server/api/reach"
	"github.com/runlot/runlot/internal/server/api/wire"
)

const (
	tag  = "Operations"
	path = "/v1/operations"
)

// calls are the calls about operations.
type calls struct {
	r *reach.Reach
	e *operations.Engine
}

// Register has a door answer the calls about operations.
func Register(d *endpoint.Door, r *reach.Reach, e *operations.Engine) {
	c := &calls{r, e}
	endpoint.Call(d, access.Deploy, huma.Operation{
		OperationID: "start-operation", Method: http.MethodPost, Path: path, Summary: "Do something to all messages that match", Tags: []string{tag},
		Description: "Goes on in the background, also over a restart: one operation of a queue at a time, the others wait. Messages that are being " +
			"delivered are left alone, as are those that arrive after it began.",
		Metadata: map[string]any{endpoint.AnyApp: true}, DefaultStatus: http.StatusCreated,
	}, c.start)
	endpoint.Call(d, access.Read, huma.Operation{
		OperationID: "list-operations", Method: http.MethodGet, Path: path, Summary: "List what is or was done in the background", Tags: []string{tag},
		Description: "Newest first.", Metadata: map[string]any{endpoint.AnyApp: true},
	}, c.list)
	endpoint.Call(d, access.Read, huma.Operation{
		OperationID: "get-operation", Method: http.MethodGet, Path: path + "/{id}", Summary: "Show the progress of an operation", Tags: []string{tag},
		Metadata: map[string]any{endpoint.AnyApp: true},
	}, func(ctx context.Context, in *idPath) (*endpoint.Body[client.Operation], error) {
		o, err := c.open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return endpoint.Answer(shown(o)), nil
	})
	endpoint.Call(d, access.Deploy, huma.Operation{
		OperationID: "cancel-operation", Method: http.MethodPost, Path: path + "/{id}/cancel", Summary: "Cancel an operation", Tags: []string{tag},
		Description: "It ends within one step, and the answer says how far it came: what was done stays done.",
		Metadata:    map[string]any{endpoint.AnyApp: true}, DefaultStatus: http.StatusOK,
	}, func(ctx context.Context, in *idPath) (*endpoint.Body[client.Operation], error) {
		o, err := c.open(ctx, in.ID)
		if err == nil {
			o, err = c.e.Cancel(ctx, o.ID)
		}
		if err != nil {
			return nil, err
		}
		return endpoint.Answer(shown(o)), nil
	})
}

// idPath is the input of a call about one operation.
type idPath struct {
	ID int64 `path:"id" minimum:"1"`
}

// open finds an operation, if the caller's token opens its queue. Another is not told that it exists.
func (c *calls) open(ctx context.Context, id int64) (*operations.Operation, error) {
	o, err := c.e.Get(ctx, id)
	if err == nil && !c.r.Opens(endpoint.Caller(ctx), o.Database, o.Queue) {
		err = operations.Unknown(id)
	}
	return o, err
}

func (c *calls) start(ctx context.Context, in *struct{ Body client.StartOperation }) (*endpoint.Body[client.Operation], error) {
	b := &in.Body
	spec := operations.Spec{
		Kind: operations.Kind(b.Kind), Database: b.Database, Queue: b.Queue, To: b.To, Rate: b.Rate, Author: endpoint.Author(ctx), App: endpoint.Caller(ctx).App,
	}
	if _, err := c.r.OpenQueue(ctx, &reach.Path{Database: b.Database, Queue: b.Queue}); err != nil {
		return nil, err
	}
	f, err := filter.Parse(b.Filter)
	switch {
	case err != nil:
		return nil, err
	case len(b.IDs) > 0 && len(f.Terms) > 0:
		return nil, fault.New(fault.Invalid, "operation_choice", "ids and a filter exclude each other").WithHint("name the messages, or say which")
	case b.To != "" && spec.Kind != operations.Redrive:
		return nil, fault.New(fault.Invalid, "operation_target", "only a redrive has a target")
	}
	ids, err := wire.IDs(b.IDs)
	if err != nil {
		return nil, err
	}
	spec.IDs, spec.Filter = wire.Texts(ids), f.String()
	if b.To != "" {
		// It is refused again where it is moved; here the caller learns of it at once.
		switch _, err := c.r.OpenQueue(ctx, &reach.Path{Database: b.Database, Queue: b.To}); {
		case fault.From(err) != nil && fault.From(err).Code == access.CodeForbidden:
			return nil, fault.New(fault.Invalid, operate.CodeTargetForbidden, "queue %q is not yours to change", b.To).WithHint("name another queue")
		case err != nil:
			return nil, err
		case b.To == b.Queue:
			return nil, fault.New(fault.Conflict, operate.CodeOntoItself, "queue %q cannot be redriven to itself", b.Queue).WithHint("name another queue")
		}
	}
	o, err := c.e.Add(ctx, &spec)
	if err != nil {
		return nil, err
	}
	return endpoint.Answer(shown(o)), nil
}

func (c *calls) list(ctx context.Context, in *struct {
	endpoint.PageQuery

	Database string `query:"database" doc:"Only of this database."`
	Queue    string `query:"queue" doc:"Only of this queue."`
},
) (*endpoint.List[client.Operation], error) {
	list, err := c.e.List(ctx, operations.Query{Database: in.Database, Queue: in.Queue, Before: in.Before, Limit: in.Limit})
	if err != nil {
		return nil, err
	}
	token := endpoint.Caller(ctx)
	list = slices.DeleteFunc(list, func(o operations.Operation) bool { return !c.r.Opens(token, o.Database, o.Queue) })
	out := make([]client.Operation, len(list))
	for i := range list {
		out[i] = shown(&list[i])
	}
	return endpoint.ListOf(out), nil
}

// shown describes an operation.
func shown(o *operations.Operation) client.Operation {
	out := client.Operation{
		ID: o.ID, Kind: string(o.Kind), Database: o.Database, Queue: o.Queue, Filter: o.Filter, Named: len(o.IDs), To: o.To, Rate: o.Rate,
		State: string(o.State), Looked: o.Looked, Matched: o.Matched, Done: o.Done, Skipped: o.Skipped, Author: o.Author, Created: o.Created.UTC(),
		Error: o.Error,
	}
	if o.Done > 0 {
		out.Undo = o.Action()
	}
	if out.Skipped == nil {
		out.Skipped = map[string]int64{}
	}
	if !o.Ended.IsZero() {
		ended := o.Ended.UTC()
		out.Ended = &ended
	}
	return out
}
