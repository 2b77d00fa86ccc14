package queues

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/settings"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// The types of consumer.
const (
	typeWorker = "worker"
	typePull   = "http_pull"
)

// text is a number of whole seconds.
func text(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }

// consumer is that of a queue.
type consumer struct {
	queue.Consumer

	// script is the app whose version declares it; "" for one that an operator gave the queue.
	script string
	since  time.Time
}

// id stays the same when the settings change.
func (c *consumer) id(p place) string {
	if c.Pull {
		return id(typePull, p.database, p.name)
	}
	return id("consumer", p.database, p.name, c.script)
}

// consumerOf is the consumer of a queue; nil when it has none. What a version declares comes before what an operator set.
func consumerOf(p place, kept *settings.Settings, apps []*app.Manifest) *consumer {
	for _, m := range apps {
		at := slices.IndexFunc(m.Consumers, func(c queue.Consumer) bool { return c.Queue == p.name })
		if m.Database == p.database && at >= 0 {
			return &consumer{m.Consumers[at], m.Name, kept.Created}
		}
	}
	if kept.Pull == nil {
		return nil
	}
	return &consumer{queue.Consumer{
		Queue: p.name, BatchSize: kept.Pull.BatchSize, MaxRetries: kept.Pull.MaxRetries, DeadLetterQueue: kept.Pull.DeadLetterQueue,
		Backoff: queue.Backoff{First: kept.Pull.RetryDelay, Max: kept.Pull.RetryDelay}, Pull: true, Visibility: kept.Pull.Visibility,
	}, "", kept.Pull.Since}
}

// consumers are those of a queue, at most one, in Cloudflare's shape.
func (c *catalog) consumers(p place, kept *settings.Settings) []map[string]any {
	one := consumerOf(p, kept, c.apps)
	if one == nil {
		return []map[string]any{}
	}
	dead := ""
	if one.DeadLetterQueue != "" {
		dead = c.shown(place{p.database, one.DeadLetterQueue})
	}
	set := map[string]any{"batch_size": one.BatchSize, "max_retries": one.MaxRetries, "retry_delay": int64(one.Backoff.First / time.Second)}
	out := map[string]any{
		"consumer_id": one.id(p), "queue_name": c.shown(p), "dead_letter_queue": dead, "created_on": wire.Stamp(one.since), "settings": set,
	}
	if one.Pull {
		out["type"] = typePull
		set["visibility_timeout_ms"] = one.Visibility.Milliseconds()
		return []map[string]any{out}
	}
	// The name is there twice: some clients look for the one, some for the other.
	out["type"], out["script"], out["script_name"] = typeWorker, one.script, one.script
	set["max_wait_time_ms"], set["max_concurrency"] = one.BatchTimeout.Milliseconds(), any(nil) // null is automatic
	if one.MaxConcurrency > 0 {
		set["max_concurrency"] = one.MaxConcurrency
	}
	return []map[string]any{out}
}

// consumersOf reads the consumers of a queue.
func (s *service) consumersOf(c *wire.Call, t *target) ([]map[string]any, error) {
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
	t, err := s.target(c)
	if err != nil {
		return err
	}
	list, err := s.consumersOf(c, t)
	if err != nil {
		return err
	}
	wire.List(w, c, list)
	return nil
}

func (s *service) getConsumer(w http.ResponseWriter, c *wire.Call) error {
	t, err := s.target(c)
	if err != nil {
		return err
	}
	list, err := s.consumersOf(c, t)
	if err != nil {
		return err
	}
	for _, one := range list {
		if one["consumer_id"] == c.PathValue("consumer") {
			wire.Answer(w, one)
			return nil
		}
	}
	return noConsumer(c)
}

func noConsumer(c *wire.Call) error {
	return fault.New(fault.NotFound, "consumer_unknown", "the queue has no consumer with the id %s", c.PathValue("consumer")).
		WithHint("list the consumers for their ids")
}

// consumerRequest makes a consumer, or another of the one that there is.
type consumerRequest struct {
	Type            string `json:"type"`
	ScriptName      string `json:"script_name"`
	Script          string `json:"script"`
	Environment     string `json:"environment_name"`
	DeadLetterQueue string `json:"dead_letter_queue"`
	Settings        struct {
		BatchSize   *float64 `json:"batch_size"`
		MaxRetries  *float64 `json:"max_retries"`
		RetryDelay  *float64 `json:"retry_delay"`
		Visibility  *float64 `json:"visibility_timeout_ms"`
		MaxWait     *float64 `json:"max_wait_time_ms"`
		Concurrency *float64 `json:"max_concurrency"`
	} `json:"settings"`
}

// read checks a request, with defaults for what it leaves out. The name of the dead-letter queue may be a full one of the
// same database.
func (in *consumerRequest) read(p place) (*queue.Consumer, error) {
	const code = wire.CodeConsumerSettings
	set := &in.Settings
	c := &queue.Consumer{
		Queue: p.name, BatchSize: queue.DefaultBatchSize, BatchTimeout: queue.DefaultBatchTimeout, MaxRetries: queue.DefaultMaxRetries,
		Visibility: queue.DefaultVisibility, Retention: queue.DefaultRetention, Pull: in.Type == typePull,
	}
	if c.Pull {
		c.BatchSize = queue.DefaultPull
	}
	number := func(key string, given *float64, least, most int, to *int) error {
		n, err := whole(code, key, "", given, time.Duration(least), time.Duration(most), 1)
		if n != nil {
			*to = int(*n)
		}
		return err
	}
	length := func(key, unit string, given *float64, least, most, one time.Duration, to *time.Duration) error {
		d, err := whole(code, key, unit, given, least, most, one)
		if d != nil {
			*to = *d
		}
		return err
	}
	delay := time.Duration(0)
	for _, err := range []error{
		number("batch_size", set.BatchSize, 1, queue.MaxBatchSize, &c.BatchSize),
		number("max_retries", set.MaxRetries, 0, queue.LimitsOf(queue.Wrangler).MaxRetries, &c.MaxRetries),
		number("max_concurrency", set.Concurrency, 1, queue.MaxConcurrency, &c.MaxConcurrency),
		length("retry_delay", " seconds", set.RetryDelay, 0, queue.MaxDelay, time.Second, &delay),
		length("max_wait_time_ms", " ms", set.MaxWait, 0, queue.MaxBatchTimeout, time.Millisecond, &c.BatchTimeout),
		length("visibility_timeout_ms", " ms", set.Visibility, queue.MinVisibility, queue.MaxVisibility, time.Millisecond, &c.Visibility),
	} {
		if err != nil {
			return nil, err
		}
	}
	c.Backoff = queue.Backoff{First: delay, Max: delay}
	c.DeadLetterQueue = strings.TrimPrefix(in.DeadLetterQueue, p.database+"/")
	switch {
	case c.DeadLetterQueue == p.name:
		return nil, fault.New(fault.Invalid, code, "the dead-letter queue of %s cannot be itself", p.name)
	case c.DeadLetterQueue != "" && !queue.ValidName(c.DeadLetterQueue):
		return nil, fault.New(fault.Invalid, code, "%q is no queue of the database %s", in.DeadLetterQueue, p.database).WithHint("%s", queue.NameRule)
	}
	return c, nil
}

// heldBy says who consumes a queue already, and which script cannot do so too; "" is none.
func heldBy(t *target, one *consumer, asking string) error {
	what := "a consumer over HTTP already"
	switch {
	case one.script != "" && one.Pull:
		what = "a consumer over HTTP already, which the script " + one.script + " declares"
	case one.script != "":
		what = "a consumer already: the script " + one.script
	}
	if asking != "" && asking != one.script {
		what += ", and " + asking + " cannot consume it too"
	}
	return fault.New(fault.Conflict, wire.CodeConsumerExists, "the queue %s has %s", t.name, what).WithHint("a queue has one consumer; remove that one first")
}

func (s *service) addConsumer(w http.ResponseWriter, c *wire.Call) error {
	return s.consume(w, c, func(t *target, now *consumer, asking string) error {
		if now != nil {
			return heldBy(t, now, asking)
		}
		return nil
	})
}

// setConsumer changes a consumer, with defaults for what is left out, or makes it.
func (s *service) setConsumer(w http.ResponseWriter, c *wire.Call) error {
	return s.consume(w, c, func(t *target, now *consumer, asking string) error {
		if now != nil && now.id(t.place) != c.PathValue("consumer") {
			return heldBy(t, now, asking)
		}
		return nil
	})
}

// consume gives a queue a consumer, if that is allowed beside the one that it has.
func (s *service) consume(w http.ResponseWriter, c *wire.Call, allowed func(t *target, now *consumer, asking string) error) error {
	t, err := s.target(c)
	if err != nil {
		return err
	}
	in, err := wire.Body[consumerRequest](c)
	if err != nil {
		return err
	}
	kept, err := t.broker.Settings(t.name)
	if err != nil {
		return err
	}
	now := consumerOf(t.place, &kept, t.apps)
	if err := allowed(t, now, cmp.Or(in.ScriptName, in.Script)); err != nil {
		return err
	}
	one, err := in.read(t.place)
	if err != nil {
		return err
	}
	switch in.Type {
	case typePull:
		err = s.consumePull(c, t, now, one)
	case typeWorker:
		err = s.consumeWorker(c, t, now, in, one)
	default:
		err = fault.New(fault.Invalid, "10026", "there is no type of consumer %q", in.Type).WithHint("use %s or %s", typeWorker, typePull)
	}
	if err != nil {
		return err
	}
	t.apps = s.o.Queues.Manifests()
	list, err := s.consumersOf(c, t)
	if err != nil {
		return err
	}
	s.changed(c, t, deploy.EventConsumerSet, map[string]string{"type": in.Type})
	wire.Answer(w, list[0])
	return nil
}

// consumePull gives a queue a consumer over HTTP. Its dead-letter queue is made when there is none.
func (s *service) consumePull(c *wire.Call, t *target, now *consumer, one *queue.Consumer) error {
	if now != nil && (now.script != "" || !now.Pull) {
		return heldBy(t, now, "")
	}
	if one.DeadLetterQueue != "" {
		if err := t.broker.Declare(c.Context(), []string{one.DeadLetterQueue}); err != nil {
			return err
		}
	}
	return t.broker.SetPull(c.Context(), t.name, &settings.Pull{
		BatchSize: one.BatchSize, MaxRetries: one.MaxRetries, RetryDelay: one.Backoff.First, Visibility: one.Visibility,
		DeadLetterQueue: one.DeadLetterQueue,
	})
}

func (s *service) removeConsumer(w http.ResponseWriter, c *wire.Call) error {
	t, err := s.target(c)
	if err != nil {
		return err
	}
	kept, err := t.broker.Settings(t.name)
	if err != nil {
		return err
	}
	now := consumerOf(t.place, &kept, t.apps)
	if now == nil || now.id(t.place) != c.PathValue("consumer") {
		return noConsumer(c)
	}
	if now.script == "" {
		if err = t.broker.SetPull(c.Context(), t.name, nil); err == nil {
			t.puller.Close(t.name)
		}
	} else {
		err = s.removeWorker(c, t, now)
	}
	if err != nil {
		return err
	}
	s.changed(c, t, deploy.EventConsumerRemoved, nil)
	wire.Answer(w, nil)
	return nil
}
