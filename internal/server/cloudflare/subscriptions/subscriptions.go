// Package subscriptions answers Cloudflare's calls about event subscriptions, in Cloudflare's shapes.
package subscriptions

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/engine/subscribe"
	"github.com/runlot/runlot/internal/server/cloudflare/queues"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// Events keeps what was done; deploy.Store is one.
type Events interface {
	AddEvent(ctx context.Context, e *deploy.Event, keep int) error
}

// Options are what the calls stand on; all fields are required.
type Options struct {
	Engine  *subscribe.Engine
	Queues  *queues.Finder
	Events  Events
	Running func() []*app.Manifest
	Log     *slog.Logger
}

type service struct{ o Options }

const (
	path    = wire.Account + "/event_subscriptions/subscriptions"
	onePath = path + "/{subscription}"
)

// Register adds the calls to a router.
func Register(r *wire.Router, o Options) {
	s := &service{o}
	r.Handle("GET "+path, access.Read, s.list)
	r.Handle("POST "+path, access.Deploy, s.create)
	r.Handle("GET "+onePath, access.Read, s.get)
	r.Handle("PATCH "+onePath, access.Deploy, s.patch)
	r.Handle("DELETE "+onePath, access.Deploy, s.remove)
}

// request makes or changes a subscription. What is absent is nil.
type request struct {
	Name        *string      `json:"name"`
	Enabled     *bool        `json:"enabled"`
	Events      []string     `json:"events"`
	Source      *source      `json:"source"`
	Destination *destination `json:"destination"`
}

// source is what is subscribed to. A script is called by its name in each of three ways.
type source struct {
	Type   string `json:"type"`
	Script string `json:"script_name,omitempty"`
	Tag    string `json:"script_tag,omitempty"`
	Worker string `json:"worker_name,omitempty"`
	Queue  string `json:"queue_id,omitempty"`
}

type destination struct {
	Type  string `json:"type"`
	Queue string `json:"queue_id"`
}

// destinationType is the one type of destination.
const destinationType = "queues.queue"

// shown is a subscription in Cloudflare's shape.
type shown struct {
	ID          string      `json:"id"`
	Name        string      `json:"name"`
	Enabled     bool        `json:"enabled"`
	Source      source      `json:"source"`
	Destination destination `json:"destination"`
	Events      []string    `json:"events"`
	Created     string      `json:"created_at"`
	Modified    string      `json:"modified_at"`
}

func show(one *subscribe.Subscription) shown {
	from := source{Type: one.Source.Type}
	switch one.Source.Type {
	case subscribe.Builds:
		from.Worker = one.Source.Script
	case subscribe.Letters:
		from.Queue = queues.ID(one.Source.Queue.Database, one.Source.Queue.Queue)
	default:
		from.Script = one.Source.Script
	}
	return shown{
		ID: one.ID, Name: one.Name, Enabled: one.Enabled, Source: from,
		Destination: destination{destinationType, queues.ID(one.Target.Database, one.Target.Queue)}, Events: one.Events,
		Created: wire.Stamp(one.Created), Modified: wire.Stamp(one.Modified),
	}
}

// place finds a queue by its id.
func (s *service) place(c *wire.Call, id string) (subscribe.Place, error) {
	database, name, err := s.o.Queues.Find(c, id)
	return subscribe.Place{Database: database, Queue: name}, err
}

func (s *service) target(c *wire.Call, to *destination) (subscribe.Place, error) {
	if to == nil || to.Queue == "" || to.Type != "" && to.Type != destinationType {
		return subscribe.Place{}, fault.New(fault.Invalid, subscribe.CodeInvalid, "a subscription has a queue as its destination").
			WithHint(`send {"destination": {"type": %q, "queue_id": …}}`, destinationType)
	}
	return s.place(c, to.Queue)
}

// allowed refuses a token for one app what is not that app's.
func allowed(c *wire.Call, from *subscribe.Source) error {
	if from.Type == subscribe.Letters {
		return nil // the queue was found for the token
	}
	return c.Token.Allow(access.Deploy, from.Script)
}

func (s *service) create(w http.ResponseWriter, c *wire.Call) error {
	in, err := wire.Body[request](c)
	if err != nil {
		return err
	}
	one := &subscribe.Subscription{Enabled: in.Enabled == nil || *in.Enabled, Events: in.Events}
	if in.Name != nil {
		one.Name = *in.Name
	}
	if from := in.Source; from != nil {
		one.Source = subscribe.Source{Type: from.Type, Script: cmp.Or(from.Script, from.Worker, from.Tag)}
		if from.Queue != "" {
			if one.Source.Queue, err = s.place(c, from.Queue); err != nil {
				return err
			}
		}
	}
	if one.Target, err = s.target(c, in.Destination); err != nil {
		return err
	}
	if err := allowed(c, &one.Source); err != nil {
		return err
	}
	if err := s.o.Engine.Create(c.Context(), one); err != nil {
		return err
	}
	s.note(c, one, deploy.EventSubscriptionCreated)
	wire.Answer(w, show(one))
	return nil
}

// find is the subscription of a call. One whose queue the token does not open is not told to exist.
func (s *service) find(c *wire.Call) (*subscribe.Subscription, error) {
	id := c.PathValue("subscription")
	one, err := s.o.Engine.Get(c.Context(), id)
	if err == nil && !s.o.Queues.Opens(c.Token, one.Target.Database, one.Target.Queue) {
		err = subscribe.Unknown(id)
	}
	return one, err
}

func (s *service) get(w http.ResponseWriter, c *wire.Call) error {
	one, err := s.find(c)
	if err != nil {
		return err
	}
	wire.Answer(w, show(one))
	return nil
}

func (s *service) patch(w http.ResponseWriter, c *wire.Call) error {
	one, err := s.find(c)
	if err != nil {
		return err
	}
	in, err := wire.Body[request](c)
	if err != nil {
		return err
	}
	if in.Source != nil {
		return fault.New(fault.Invalid, subscribe.CodeInvalid, "the source of a subscription cannot be changed").WithHint("make another one, and delete this")
	}
	if err := allowed(c, &one.Source); err != nil {
		return err
	}
	one.Name, one.Enabled = *cmp.Or(in.Name, &one.Name), *cmp.Or(in.Enabled, &one.Enabled)
	if in.Events != nil {
		one.Events = in.Events
	}
	if in.Destination != nil {
		if one.Target, err = s.target(c, in.Destination); err != nil {
			return err
		}
	}
	if err := s.o.Engine.Update(c.Context(), one); err != nil {
		return err
	}
	s.note(c, one, deploy.EventSubscriptionChanged)
	wire.Answer(w, show(one))
	return nil
}

func (s *service) remove(w http.ResponseWriter, c *wire.Call) error {
	one, err := s.find(c)
	if err != nil {
		return err
	}
	if err := allowed(c, &one.Source); err != nil {
		return err
	}
	if err := s.o.Engine.Delete(c.Context(), one.ID); err != nil {
		return err
	}
	s.note(c, one, deploy.EventSubscriptionDeleted)
	wire.Answer(w, show(one))
	return nil
}

// orders are what a list may be ordered by.
var orders = map[string]func(a, b *subscribe.Subscription) int{
	"":           func(a, b *subscribe.Subscription) int { return a.Created.Compare(b.Created) },
	"created_at": func(a, b *subscribe.Subscription) int { return a.Created.Compare(b.Created) },
	"name":       func(a, b *subscribe.Subscription) int { return strings.Compare(a.Name, b.Name) },
	"source":     func(a, b *subscribe.Subscription) int { return strings.Compare(a.Source.Type, b.Source.Type) },
	"enabled": func(a, b *subscribe.Subscription) int {
		rank := map[bool]int{true: 1}
		return rank[a.Enabled] - rank[b.Enabled]
	},
}

func (s *service) list(w http.ResponseWriter, c *wire.Call) error {
	all, err := s.o.Engine.List(c.Context())
	if err != nil {
		return err
	}
	asked := c.URL.Query()
	order := orders[asked.Get("order")]
	if order == nil {
		return fault.New(fault.Invalid, subscribe.CodeInvalid, "subscriptions are not ordered by %q", asked.Get("order")).
			WithHint("order by created_at, name, enabled or source")
	}
	slices.SortStableFunc(all, func(a, b subscribe.Subscription) int { return order(&a, &b) })
	if asked.Get("direction") == "desc" {
		slices.Reverse(all)
	}
	list := []shown{}
	for i := range all {
		one := show(&all[i])
		if of := asked.Get("queue_id"); (of == "" || of == one.Destination.Queue) && s.o.Queues.Opens(c.Token, all[i].Target.Database, all[i].Target.Queue) {
			list = append(list, one)
		}
	}
	wire.List(w, c, list)
	return nil
}

// note records what was done.
func (s *service) note(c *wire.Call, one *subscribe.Subscription, kind string) {
	e := deploy.QueueEvent(kind, c.Token.App, c.Token.Name, one.Target.Database, one.Target.Queue, one.Detail(), s.o.Running())
	if err := s.o.Events.AddEvent(wire.Finished(c), e, queue.KeptEvents); err != nil {
		s.o.Log.Error("an event was not recorded", "kind", kind, "error", fault.Detail(err))
	}
}
