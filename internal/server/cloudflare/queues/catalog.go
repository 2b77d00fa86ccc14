package queues

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/pull"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// place is where a queue is: what it is identified by.
type place struct{ database, name string }

// id is 32 hexadecimal digits that stand for the parts of a name, each of a fixed meaning.
func id(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	const bytes = 16
	return hex.EncodeToString(sum[:bytes])
}

func (p place) id() string { return id("queue", p.database, p.name) }

// full is the name that means this queue and no other.
func (p place) full() string { return p.database + "/" + p.name }

// compare orders queues: those of the database that wrangler's apps share come first.
func (p place) compare(o place) int {
	rank := func(p place) int {
		if p.database == app.DefaultDatabase {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(p), rank(o)), cmp.Compare(p.database, o.database), cmp.Compare(p.name, o.name))
}

// catalog is every queue that there is at a moment, in order.
type catalog struct {
	places  []place
	brokers map[string]*broker.Broker
	apps    []*app.Manifest
}

// databases are those in use, and the one in which queues are made that no app names.
func (s *service) databases() []string {
	names := s.o.Queues.Databases()
	if !slices.Contains(names, app.DefaultDatabase) {
		names = append(slices.Clone(names), app.DefaultDatabase)
	}
	return names
}

// read lists the queues of all databases. A database that does not answer fails it: a queue that is left out would look
// like one that does not exist.
func (s *service) read(ctx context.Context) (*catalog, error) {
	c := &catalog{brokers: map[string]*broker.Broker{}, apps: s.o.Queues.Manifests()}
	for _, database := range s.databases() {
		db, err := s.o.Queues.Database(ctx, database)
		if err != nil {
			return nil, err
		}
		c.brokers[database] = db.Broker
		for _, name := range db.Broker.Queues() {
			p := place{database, name}
			c.places = append(c.places, p)
			s.know(p)
		}
	}
	slices.SortFunc(c.places, place.compare)
	return c, nil
}

// shown is how a queue is called in answers: by its name alone where that means it.
func (c *catalog) shown(p place) string {
	if found, err := c.named(p.name); err == nil && found != nil && *found == p {
		return p.name
	}
	return p.full()
}

// named finds the queue that a name means; nil when there is none. Fault: Invalid where several are meant.
func (c *catalog) named(name string) (*place, error) {
	var found []place
	for _, p := range c.places {
		if p.full() == name {
			return &p, nil
		}
		if p.name == name {
			found = append(found, p)
		}
	}
	switch {
	case len(found) == 0:
		return nil, nil //nolint:nilnil // a name that no queue has is no error
	case len(found) > 1 && found[0].database != app.DefaultDatabase:
		full := make([]string, len(found))
		for i := range found {
			full[i] = found[i].full()
		}
		return nil, fault.New(fault.Invalid, wire.CodeQueueName, "%d databases have a queue %s", len(found), name).WithHint("call it %s", strings.Join(full, " or "))
	}
	return &found[0], nil
}

func (s *service) know(p place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids[p.id()] = p
}

func (s *service) known(id string) (place, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.ids[id]
	return p, ok
}

// target is the queue that a call is about.
type target struct {
	place

	broker *broker.Broker
	puller *pull.Engine
	apps   []*app.Manifest
}

// target finds the queue of a call, for a token that opens it.
func (s *service) target(c *wire.Call) (*target, error) { return s.find(c, c.PathValue("queue")) }

// find finds a queue by its id.
func (s *service) find(c *wire.Call, given string) (*target, error) {
	found, ok := s.known(given)
	if !ok {
		if _, err := s.read(c.Context()); err != nil {
			return nil, err
		}
		found, ok = s.known(given)
	}
	missing := fault.New(fault.NotFound, queue.CodeQueueNotFound, "there is no queue with the id %s", given).WithHint("list the queues for their ids")
	if !ok {
		return nil, missing
	}
	t := &target{place: found, apps: s.o.Queues.Manifests()}
	if err := s.opens(c.Token, t.apps, t.place); err != nil {
		return nil, err
	}
	db, err := s.o.Queues.Database(c.Context(), t.database)
	if err != nil {
		return nil, err
	}
	t.broker, t.puller = db.Broker, db.Puller
	if _, err = t.broker.Settings(t.name); fault.KindOf(err) == fault.NotFound {
		return nil, missing
	}
	return t, err
}

// opens refuses a token that is for an app which does not name the queue.
func (s *service) opens(t *access.Token, apps []*app.Manifest, p place) error {
	if t.Opens(apps, p.database, p.name) {
		return nil
	}
	return fault.New(fault.Invalid, access.CodeForbidden, "the token %q is for the app %s, whose live version does not name the queue %s", t.Name, t.App, p.full()).
		WithHint("use another token, or ask an admin for one")
}
