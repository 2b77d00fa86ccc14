package queues

import (
	"net/http"
	"strconv"
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

// remove deletes a queue with all that it holds, and its consumer over HTTP with it. A token for one app deletes none.
func (s *service) remove(w http.ResponseWriter, c *wire.Call) error {
	if err := c.Token.Allow(access.Deploy, ""); err != nil {
		return err
	}
	t, err := s.target(c)
	if err != nil {
		return err
	}
	gone, err := s.o.Queues.RemoveQueue(wire.Finished(c), t.database, t.name)
	if err != nil {
		return err
	}
	t.puller.Close(t.name)
	s.forget(t.place)
	s.changed(c, t, deploy.EventQueueDeleted, map[string]string{"messages": strconv.FormatInt(gone.Messages, 10)})
	wire.Answer(w, nil)
	return nil
}

// forget drops what is known of a queue that is gone.
func (s *service) forget(p place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ids, p.id())
	delete(s.purges, p)
}
