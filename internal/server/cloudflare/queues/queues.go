package queues

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/broker/operate"
	"github.com/runlot/runlot/internal/engine/broker/settings"
	"github.com/runlot/runlot/internal/engine/broker/store"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/engine/pull"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// Queues is what the calls ask of the queues.
type Queues interface {
	// Databases are the names of the databases in use.
	Databases() []string
	// Database is what serves a database now; app.DefaultDatabase is there always. Faults: NotFound
	// (queue.CodeQueueNotFound), Unavailable.
	Database(ctx context.Context, name string) (Database, error)
	// Manifests are those of the versions that run.
	Manifests() []*app.Manifest
	// RemoveQueue deletes a queue that nobody uses, with all that it holds, and returns what that was. Faults: NotFound
	// (queue.CodeQueueNotFound); Conflict, naming who uses it; Unavailable.
	RemoveQueue(ctx context.Context, database, queueName string) (store.Count, error)
}

// Database is the queues of a database, and what hands their messages out over HTTP.
type Database struct {
	Broker *broker.Broker
	Puller *pull.Engine
}

// Events keeps what was done; deploy.Store is one.
type Events interface {
	AddEvent(ctx context.Context, e *deploy.Event, keep int) error
}

// Scripts changes what the live version of a script declares; deploy.Engine is one.
type Scripts interface {
	Revise(ctx context.Context, r *deploy.Revision) error
}

// Options are what the calls stand on; all fields are required.
type Options struct {
	Queues  Queues
	Scripts Scripts
	Events  Events
	Log     *slog.Logger
}

type service struct {
	o Options

	mu     sync.Mutex
	ids    map[string]place    // the queues that were listed, by id; guarded by mu
	purges map[place]time.Time // when the last purge of a queue began; guarded by mu
}

const (
	queuesPath = wire.Account + "/queues"
	queuePath  = queuesPath + "/{queue}"
)

// Register adds the calls to a router, and returns what finds the queues that they know.
func Register(r *wire.Router, o Options) *Finder {
	s := &service{o: o, ids: map[string]place{}, purges: map[place]time.Time{}}
	r.Handle("GET "+queuesPath, access.Read, s.list)
	r.Handle("POST "+queuesPath, access.Deploy, s.create)
	r.Handle("GET "+queuePath, access.Read, s.get)
	r.Handle("DELETE "+queuePath, access.Deploy, s.remove)
	r.Handle("PATCH "+queuePath, access.Deploy, s.patch)
	r.Handle("PUT "+queuePath, access.Deploy, s.put)
	r.Handle("GET "+queuePath+"/metrics", access.Read, s.metrics)
	r.Handle("POST "+queuePath+"/purge", access.Deploy, s.purge)
	r.Handle("GET "+queuePath+"/purge", access.Read, s.purgeStatus)
	r.Handle("GET "+queuePath+"/consumers", access.Read, s.listConsumers)
	r.Handle("GET "+queuePath+"/consumers/{consumer}", access.Read, s.getConsumer)
	r.Handle("POST "+queuePath+"/consumers", access.Deploy, s.addConsumer)
	r.Handle("PUT "+queuePath+"/consumers/{consumer}", access.Deploy, s.setConsumer)
	r.Handle("DELETE "+queuePath+"/consumers/{consumer}", access.Deploy, s.removeConsumer)
	r.Handle("POST "+queuePath+"/messages", access.Deploy, s.push)
	r.Handle("POST "+queuePath+"/messages/batch", access.Deploy, s.pushBatch)
	r.Handle("POST "+queuePath+"/messages/pull", access.Deploy, s.pull)
	r.Handle("POST "+queuePath+"/messages/ack", access.Deploy, s.ack)
	r.Handle("POST "+queuePath+"/messages/peek", access.Read, s.peek)
	r.Handle("POST "+queuePath+"/messages/purge", access.Deploy, s.purgeMessages)
	return &Finder{s}
}

// changed records what was done to a queue.
func (s *service) changed(c *wire.Call, t *target, kind string, detail map[string]string) {
	e := deploy.QueueEvent(kind, c.Token.App, c.Token.Name, t.database, t.name, detail, t.apps)
	if err := s.o.Events.AddEvent(wire.Finished(c), e, queue.KeptEvents); err != nil {
		s.o.Log.Error("an event was not recorded", "kind", kind, "queue", t.full(), "error", fault.Detail(err))
	}
}

func (s *service) list(w http.ResponseWriter, c *wire.Call) error {
	all, err := s.read(c.Context())
	if err != nil {
		return err
	}
	places := all.places
	if names := c.URL.Query()["name"]; len(names) > 0 {
		places = nil
		for _, name := range names {
			found, err := all.named(name)
			if err != nil {
				return err
			}
			if found != nil && !slices.Contains(places, *found) {
				places = append(places, *found)
			}
		}
	}
	list := []map[string]any{}
	for _, p := range places {
		if !c.Token.Opens(all.apps, p.database, p.name) {
			continue
		}
		kept, err := all.brokers[p.database].Settings(p.name)
		if err != nil {
			return err
		}
		list = append(list, all.describe(p, &kept))
	}
	wire.List(w, c, list)
	return nil
}

// describe is a queue in Cloudflare's shape.
func (c *catalog) describe(p place, kept *settings.Settings) map[string]any {
	producers, consumers := []map[string]string{}, c.consumers(p, kept)
	for _, m := range c.apps {
		if m.Database == p.database && slices.ContainsFunc(m.Producers, func(one app.Producer) bool { return one.Queue == p.name }) {
			producers = append(producers, map[string]string{"type": "worker", "script": m.Name})
		}
	}
	return map[string]any{
		"queue_id": p.id(), "queue_name": c.shown(p), "created_on": wire.Stamp(kept.Created), "modified_on": wire.Stamp(kept.Created),
		"settings": map[string]any{
			"delivery_delay": int64(kept.DeliveryDelay / time.Second), "delivery_paused": !kept.PausedAt.IsZero(),
			"message_retention_period": int64(kept.Retention / time.Second),
		},
		"producers": producers, "producers_total_count": len(producers), "consumers": consumers, "consumers_total_count": len(consumers),
	}
}

// show answers with a queue.
func (s *service) show(w http.ResponseWriter, c *wire.Call, t *target) error {
	all, err := s.read(c.Context())
	if err != nil {
		return err
	}
	kept, err := t.broker.Settings(t.name)
	if err != nil {
		return err
	}
	wire.Answer(w, all.describe(t.place, &kept))
	return nil
}

func (s *service) get(w http.ResponseWriter, c *wire.Call) error {
	t, err := s.target(c)
	if err != nil {
		return err
	}
	return s.show(w, c, t)
}

// queueRequest changes a queue. Settings that are absent are nil.
type queueRequest struct {
	Name     string `json:"queue_name"`
	Settings struct {
		Delay     *float64 `json:"delivery_delay"`
		Retention *float64 `json:"message_retention_period"`
		Paused    *bool    `json:"delivery_paused"`
	} `json:"settings"`
}

// change reads the settings of a request.
func (in *queueRequest) change() (change settings.Change, err error) {
	if change.DeliveryDelay, err = seconds(wire.CodeQueueSettings, "delivery_delay", in.Settings.Delay, 0, queue.MaxDelay); err != nil {
		return change, err
	}
	change.Paused = in.Settings.Paused
	change.Retention, err = seconds(wire.CodeQueueSettings, "message_retention_period", in.Settings.Retention, queue.MinRetention, queue.MaxRetention)
	return change, err
}

// seconds reads a number of whole seconds within a range; nil is none.
func seconds(code, key string, given *float64, least, most time.Duration) (*time.Duration, error) {
	return whole(code, key, " seconds", given, least, most, time.Second)
}

// whole reads a whole number of a unit of time within a range; nil is none. The name of the unit, with the space before it,
// is for the error.
func whole(code, key, name string, given *float64, least, most, unit time.Duration) (*time.Duration, error) {
	if given == nil {
		return nil, nil //nolint:nilnil // what is not given is no error
	}
	if *given != math.Trunc(*given) || *given < float64(least/unit) || *given > float64(most/unit) {
		return nil, fault.New(fault.Invalid, code, "%s of %s is outside %d to %d%s", key, strconv.FormatFloat(*given, 'f', -1, 64), least/unit, most/unit, name)
	}
	return new(time.Duration(*given) * unit), nil
}

// patch changes the settings that are given.
func (s *service) patch(w http.ResponseWriter, c *wire.Call) error {
	return s.configure(w, c, func(*settings.Change) {})
}

// put sets those that are not given back to their defaults.
func (s *service) put(w http.ResponseWriter, c *wire.Call) error {
	return s.configure(w, c, func(change *settings.Change) {
		if change.DeliveryDelay == nil {
			change.DeliveryDelay = new(time.Duration(0))
		}
		if change.Retention == nil {
			change.Retention = new(time.Duration(0))
		}
		if change.Paused == nil {
			change.Paused = new(false)
		}
	})
}

func (s *service) configure(w http.ResponseWriter, c *wire.Call, complete func(*settings.Change)) error {
	t, err := s.target(c)
	if err != nil {
		return err
	}
	in, err := wire.Body[queueRequest](c)
	if err != nil {
		return err
	}
	if in.Name != "" && in.Name != t.name && in.Name != t.full() {
		return fault.New(fault.Invalid, wire.CodeQueueName, "a queue cannot be renamed here: %s stays %s", t.name, t.name).
			WithHint("deploy with another queue, and move what waits with `runlot queue redrive %s --to %s`", t.name, in.Name)
	}
	change, err := in.change()
	if err != nil {
		return err
	}
	complete(&change)
	before, err := t.broker.Settings(t.name)
	if err != nil {
		return err
	}
	if err := t.broker.Change(c.Context(), t.name, change); err != nil {
		return err
	}
	after, err := t.broker.Settings(t.name)
	if err != nil {
		return err
	}
	s.noteSettings(c, t, &before, &after)
	return s.show(w, c, t)
}

// noteSettings records each setting that changed.
func (s *service) noteSettings(c *wire.Call, t *target, before, after *settings.Settings) {
	switch {
	case before.PausedAt.IsZero() && !after.PausedAt.IsZero():
		s.changed(c, t, deploy.EventQueuePaused, nil)
	case !before.PausedAt.IsZero() && after.PausedAt.IsZero():
		s.changed(c, t, deploy.EventQueueResumed, nil)
	}
	if before.Retention != after.Retention || before.Overridden != after.Overridden {
		s.changed(c, t, deploy.EventRetentionSet, map[string]string{"seconds": text(after.Retention)})
	}
	if before.DeliveryDelay != after.DeliveryDelay {
		s.changed(c, t, deploy.EventDelaySet, map[string]string{"seconds": text(after.DeliveryDelay)})
	}
}

// wireMetrics is a backlog in Cloudflare's shape.
func wireMetrics(m *queue.Metrics) map[string]int64 {
	oldest := int64(0)
	if !m.Oldest.IsZero() {
		oldest = m.Oldest.UnixMilli()
	}
	return map[string]int64{"backlog_count": m.Count, "backlog_bytes": m.Bytes, "oldest_message_timestamp_ms": oldest}
}

func (s *service) metrics(w http.ResponseWriter, c *wire.Call) error {
	t, err := s.target(c)
	if err != nil {
		return err
	}
	m, err := t.broker.Metrics(c.Context(), t.name)
	if err != nil {
		return err
	}
	wire.Answer(w, wireMetrics(&m))
	return nil
}

// purge begins a purge and leaves the deletion to the broker.
func (s *service) purge(w http.ResponseWriter, c *wire.Call) error {
	t, err := s.target(c)
	if err != nil {
		return err
	}
	in, err := wire.Body[struct {
		Sure bool `json:"delete_messages_permanently"`
	}](c)
	if err != nil {
		return err
	}
	if !in.Sure {
		return fault.New(fault.Invalid, queue.CodeBodyInvalid, "a purge deletes every message of the queue %s", t.name).
			WithHint(`send {"delete_messages_permanently": true} if that is meant`)
	}
	ctx, cancel := context.WithCancel(wire.Finished(c))
	defer cancel()
	begun := false
	_, err = t.broker.Purge(ctx, t.name, func(operate.Purged) {
		begun = true
		cancel() // from here on it goes on without a caller
	})
	if !begun {
		return err
	}
	s.mu.Lock()
	s.purges[t.place] = time.Now()
	s.mu.Unlock()
	s.changed(c, t, deploy.EventQueuePurged, nil)
	return s.show(w, c, t)
}

// purgeStatus tells of the last purge; of one before the last start of the server, whether it is under way.
func (s *service) purgeStatus(w http.ResponseWriter, c *wire.Call) error {
	t, err := s.target(c)
	if err != nil {
		return err
	}
	kept, err := t.broker.Settings(t.name)
	if err != nil {
		return err
	}
	s.mu.Lock()
	began := s.purges[t.place]
	s.mu.Unlock()
	out := map[string]string{"started_at": "", "completed": ""}
	if !began.IsZero() {
		out["started_at"] = wire.Stamp(began)
	}
	switch {
	case kept.Purging:
		out["completed"] = "false"
	case !began.IsZero():
		out["completed"] = "true"
	}
	wire.Answer(w, out)
	return nil
}
