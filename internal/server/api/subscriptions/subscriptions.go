// Package subscriptions is the calls about event subscriptions.
package subscriptions

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	client "github.com/runlot/runlot/client/subscriptions"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/engine/subscribe"
	"github.com/runlot/runlot/internal/server/api/endpoint"
	"github.com/runlot/runlot/internal/server/api/reach"
)

const (
	tag  = "Event subscriptions"
	path = "/v1/subscriptions"
)

// calls are the calls about subscriptions.
type calls struct {
	r *reach.Reach
	e *subscribe.Engine
}

// answer is one subscription.
type answer = endpoint.Body[client.Subscription]

// IDPath is the input of a call about one subscription.
type IDPath struct {
	ID string `path:"id" maxLength:"64"`
}

// Register has a door answer the calls.
func Register(d *endpoint.Door, r *reach.Reach, e *subscribe.Engine) {
	c := &calls{r, e}
	sources := make([]string, 0, len(subscribe.Sources()))
	for _, source := range subscribe.Sources() {
		sources = append(sources, source+": "+strings.Join(subscribe.EventsOf(source), ", "))
	}
	open := func(o huma.Operation) huma.Operation {
		o.Tags, o.Metadata = []string{tag}, map[string]any{endpoint.AnyApp: true}
		return o
	}
	endpoint.Call(d, access.Read, open(huma.Operation{
		OperationID: "list-subscriptions", Method: http.MethodGet, Path: path, Summary: "List event subscriptions", Description: "In the order in which they were made.",
	}), c.list)
	endpoint.Call(d, access.Deploy, open(huma.Operation{
		OperationID: "create-subscription", Method: http.MethodPost, Path: path, Summary: "Tell a queue of events", DefaultStatus: http.StatusCreated,
		Description: "At least once, from now on. The sources and their events: " + strings.Join(sources, "; ") + ".",
	}), c.create)
	endpoint.Call(d, access.Read, open(huma.Operation{
		OperationID: "get-subscription", Method: http.MethodGet, Path: path + "/{id}", Summary: "Show an event subscription",
	}), func(ctx context.Context, in *IDPath) (*answer, error) {
		one, err := c.find(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return endpoint.Answer(shown(one)), nil
	})
	endpoint.Call(d, access.Deploy, open(huma.Operation{
		OperationID: "update-subscription", Method: http.MethodPatch, Path: path + "/{id}", Summary: "Change an event subscription",
		Description: "While it is not enabled, nothing is kept for it.",
	}), c.update)
	endpoint.Call(d, access.Deploy, open(huma.Operation{
		OperationID: "delete-subscription", Method: http.MethodDelete, Path: path + "/{id}", Summary: "Delete an event subscription", DefaultStatus: http.StatusOK,
		Description: "With the events that are still to be sent.",
	}), func(ctx context.Context, in *IDPath) (*answer, error) {
		one, err := c.findToChange(ctx, in.ID)
		if err == nil {
			err = c.e.Delete(ctx, one.ID)
		}
		if err != nil {
			return nil, err
		}
		c.note(ctx, one, deploy.EventSubscriptionDeleted)
		return endpoint.Answer(shown(one)), nil
	})
}

// find is a subscription. One whose queue the token does not open is not told to exist.
func (c *calls) find(ctx context.Context, id string) (*subscribe.Subscription, error) {
	one, err := c.e.Get(ctx, id)
	if err == nil && !c.r.Opens(endpoint.Caller(ctx), one.Target.Database, one.Target.Queue) {
		err = subscribe.Unknown(id)
	}
	return one, err
}

func (c *calls) findToChange(ctx context.Context, id string) (*subscribe.Subscription, error) {
	one, err := c.find(ctx, id)
	if err == nil {
		err = c.allowed(ctx, &one.Source)
	}
	return one, err
}

// allowed refuses a token for one app the events of what is not that app's.
func (c *calls) allowed(ctx context.Context, from *subscribe.Source) error {
	if from.Type != subscribe.Letters {
		return endpoint.Caller(ctx).Allow(access.Deploy, from.Script)
	}
	if !c.r.Opens(endpoint.Caller(ctx), from.Queue.Database, from.Queue.Queue) {
		return reach.Forbidden(ctx, "the queue "+from.Queue.Queue+" of database "+from.Queue.Database)
	}
	return nil
}

func (c *calls) create(ctx context.Context, in *struct{ Body client.New }) (*answer, error) {
	b := &in.Body
	one := &subscribe.Subscription{
		Name: b.Name, Enabled: !b.Disabled, Events: b.Events, Target: subscribe.Place{Database: b.Database, Queue: b.Queue},
		Source: subscribe.Source{Type: b.Source.Type, Script: b.Source.Script, Queue: subscribe.Place{Database: b.Source.Database, Queue: b.Source.Queue}},
	}
	if len(one.Events) == 0 {
		one.Events = subscribe.EventsOf(one.Source.Type)
	}
	if !c.r.Opens(endpoint.Caller(ctx), b.Database, b.Queue) {
		return nil, reach.Forbidden(ctx, "the queue "+b.Queue+" of database "+b.Database)
	}
	if err := c.allowed(ctx, &one.Source); err != nil {
		return nil, err
	}
	if err := c.e.Create(ctx, one); err != nil {
		return nil, err
	}
	c.note(ctx, one, deploy.EventSubscriptionCreated)
	return endpoint.Answer(shown(one)), nil
}

func (c *calls) update(ctx context.Context, in *struct {
	IDPath

	Body client.Change
},
) (*answer, error) {
	one, err := c.findToChange(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	one.Name, one.Enabled = *cmp.Or(in.Body.Name, &one.Name), *cmp.Or(in.Body.Enabled, &one.Enabled)
	if in.Body.Events != nil {
		one.Events = in.Body.Events
	}
	if err := c.e.Update(ctx, one); err != nil {
		return nil, err
	}
	c.note(ctx, one, deploy.EventSubscriptionChanged)
	return endpoint.Answer(shown(one)), nil
}

func (c *calls) list(ctx context.Context, in *struct {
	Database string `query:"database" doc:"Only of this database."`
	Queue    string `query:"queue" doc:"Only of this queue."`
},
) (*endpoint.List[client.Subscription], error) {
	all, err := c.e.List(ctx)
	if err != nil {
		return nil, err
	}
	var list []client.Subscription
	for i := range all {
		to := all[i].Target
		if (in.Database == "" || in.Database == to.Database) && (in.Queue == "" || in.Queue == to.Queue) && c.r.Opens(endpoint.Caller(ctx), to.Database, to.Queue) {
			list = append(list, shown(&all[i]))
		}
	}
	return endpoint.ListOf(list), nil
}

func (c *calls) note(ctx context.Context, one *subscribe.Subscription, kind string) {
	c.r.Changed(ctx, &reach.Path{Database: one.Target.Database, Queue: one.Target.Queue}, kind, one.Detail())
}

func shown(one *subscribe.Subscription) client.Subscription {
	return client.Subscription{
		ID: one.ID, Name: one.Name, Enabled: one.Enabled, Events: one.Events, Database: one.Target.Database, Queue: one.Target.Queue,
		Source:  client.Source{Type: one.Source.Type, Script: one.Source.Script, Database: one.Source.Queue.Database, Queue: one.Source.Queue.Queue},
		Created: one.Created, Modified: one.Modified,
	}
}
