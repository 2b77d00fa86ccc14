package queues

import (
	"net/http"
	"strings"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// create makes a queue that no version declares, in the database "default" unless its name says another. A token for one
// app makes none: the queue would not be its.
func (s *service) create(w http.ResponseWriter, c *wire.Call) error {
	if err := c.Token.Allow(access.Deploy, ""); err != nil {
		return err
	}
	in, err := wire.Body[queueRequest](c)
	if err != nil {
		return err
	}
	p := place{app.DefaultDatabase, in.Name}
	if database, name, ok := strings.Cut(in.Name, "/"); ok {
		p = place{database, name}
	}
	if !queue.ValidName(p.name) {
		return fault.New(fault.Invalid, wire.CodeQueueName, "%q is no queue name", in.Name).WithHint("%s", queue.NameRule)
	}
	change, err := in.change()
	if err != nil {
		return err
	}
	db, err := s.o.Queues.Database(c.Context(), p.database)
	if err != nil {
		return err
	}
	if _, err := db.Broker.Settings(p.name); err == nil {
		return fault.New(fault.Conflict, wire.CodeQueueExists, "there is a queue %s already", p.full()).WithHint("choose another name, or use that one")
	}
	if err := db.Broker.Declare(c.Context(), []string{p.name}); err != nil {
		return err
	}
	s.know(p)
	if err := db.Broker.Change(c.Context(), p.name, change); err != nil {
		return err
	}
	t := &target{place: p, broker: db.Broker, puller: db.Puller, apps: s.o.Queues.Manifests()}
	s.changed(c, t, deploy.EventQueueCreated, nil)
	return s.show(w, c, t)
}

// remove refuses: a queue is a row that others may write to at any time.
func (s *service) remove(_ http.ResponseWriter, c *wire.Call) error {
	t, err := s.target(c)
	if err != nil {
		return err
	}
	return fault.New(fault.Invalid, "queue_delete", "a queue cannot be deleted in this release: %s stays", t.name).
		WithHint("`wrangler queues purge %s` empties it; an empty queue costs nothing", t.name)
}
