package queues

import (
	"net/http"
	"strconv"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/settings"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// text is a number of whole seconds.
func text(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }

// consumers are those of a queue, at most one, in Cloudflare's shape.
func (c *catalog) consumers(p place, kept *settings.Settings) []map[string]any {
	list := []map[string]any{}
	for _, m := range c.apps {
		for i := range m.Consumers {
			if one := &m.Consumers[i]; m.Database == p.database && one.Queue == p.name {
				list = append(list, c.worker(p, kept, m.Name, one))
			}
		}
	}
	return list
}

// worker is a consumer that is a script. Its name is there twice: some clients look for the one, some for the other.
func (c *catalog) worker(p place, kept *settings.Settings, script string, one *queue.Consumer) map[string]any {
	var most any // null is automatic
	if one.MaxConcurrency > 0 {
		most = one.MaxConcurrency
	}
	dead := ""
	if one.DeadLetterQueue != "" {
		dead = c.shown(place{p.database, one.DeadLetterQueue})
	}
	return map[string]any{
		"consumer_id": id("consumer", p.database, p.name, script), "type": "worker", "script": script, "script_name": script, "queue_name": c.shown(p),
		"dead_letter_queue": dead, "created_on": wire.Stamp(kept.Created),
		"settings": map[string]any{
			"batch_size": one.BatchSize, "max_retries": one.MaxRetries, "max_wait_time_ms": one.BatchTimeout.Milliseconds(),
			"max_concurrency": most, "retry_delay": int64(one.Backoff.First / time.Second),
		},
	}
}

// consumersOf reads the consumers of the queue of a call.
func (s *service) consumersOf(c *wire.Call) ([]map[string]any, error) {
	t, err := s.target(c)
	if err != nil {
		return nil, err
	}
	kept, err := t.broker.Settings(t.name)
	if err != nil {
		return nil, err
	}
	all, err := s.read(c.Context())
	if err != nil {
		return nil, err
	}
	return all.consumers(t.place, &kept), nil
}

func (s *service) listConsumers(w http.ResponseWriter, c *wire.Call) error {
	list, err := s.consumersOf(c)
	if err != nil {
		return err
	}
	wire.List(w, c, list)
	return nil
}

func (s *service) getConsumer(w http.ResponseWriter, c *wire.Call) error {
	list, err := s.consumersOf(c)
	if err != nil {
		return err
	}
	for _, one := range list {
		if one["consumer_id"] == c.PathValue("consumer") {
			wire.Answer(w, one)
			return nil
		}
	}
	return fault.New(fault.NotFound, "consumer_unknown", "the queue has no consumer with the id %s", c.PathValue("consumer")).
		WithHint("list the consumers for their ids")
}
