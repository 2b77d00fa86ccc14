package rules

import (
	"math"
	"time"

	"github.com/runlot/runlot/internal/config/source"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/queue"
)

// Queues reads the declarations of queues of one dialect.
type Queues struct {
	Dialect  queue.Dialect
	Spelling Spelling
	// ProducerKeys and ConsumerKeys are keys that only this dialect has; Producer and Consumer read them.
	ProducerKeys []string
	ConsumerKeys []string
	Producer     func(entry source.Value)
	Consumer     func(entry source.Value, c *queue.Consumer)
}

// Read reads `queues`. An entry without a usable queue name or binding is left out: it has been reported.
func (q *Queues) Read(v source.Value, names Names, m *app.Manifest) {
	if !v.IsObject() {
		return
	}
	v.Allow("producers", "consumers")
	for _, entry := range v.Get("producers").Items() {
		if p, ok := q.producer(entry, names); ok {
			m.Producers = append(m.Producers, p)
		}
	}
	seen := map[string]string{}
	for _, entry := range v.Get("consumers").Items() {
		c, ok := q.consumer(entry)
		if !ok {
			continue
		}
		if earlier, twice := seen[c.Queue]; twice {
			entry.Get("queue").Refusef("keep one of them: a queue has one consumer",
				"queue `%s` has two consumers; the first is %s", c.Queue, earlier)
			continue
		}
		seen[c.Queue] = entry.Path()
		m.Consumers = append(m.Consumers, c)
	}
}

func (q *Queues) producer(entry source.Value, names Names) (app.Producer, bool) {
	if !entry.IsObject() {
		return app.Producer{}, false
	}
	delay := q.Spelling("deliveryDelay")
	entry.Allow(append([]string{bindingKey, "queue", delay}, q.ProducerKeys...)...)
	p := app.Producer{Binding: names.Binding(entry, "JOBS"), Queue: queueName(entry)}
	if d, ok := seconds(entry.Get(delay), 0, queue.MaxDelay); ok {
		p.DeliveryDelay = &d
	}
	if q.Producer != nil {
		q.Producer(entry)
	}
	return p, p.Binding != "" && p.Queue != ""
}

func queueName(entry source.Value) string {
	v := entry.Get("queue")
	if !v.Exists() {
		entry.Refusef("add "+v.Line("queue", `"jobs"`), "`queue`, the queue's name, is missing")
		return ""
	}
	return CheckName(v, "a queue name")
}

func (q *Queues) consumer(entry source.Value) (queue.Consumer, bool) {
	if !entry.IsObject() {
		return queue.Consumer{}, false
	}
	limits := queue.LimitsOf(q.Dialect)
	key := func(camel string) source.Value { return entry.Get(q.Spelling(camel)) }
	entry.Allow(append([]string{
		"queue", q.Spelling("maxBatchSize"), q.Spelling("maxBatchTimeout"), q.Spelling("maxRetries"),
		q.Spelling("maxConcurrency"), q.Spelling("retryDelay"), q.Spelling("deadLetterQueue"),
		"type", q.Spelling("visibilityTimeoutMs"),
	}, q.ConsumerKeys...)...)
	c := queue.Consumer{
		Queue: queueName(entry), BatchSize: queue.DefaultBatchSize, BatchTimeout: queue.DefaultBatchTimeout,
		MaxRetries: queue.DefaultMaxRetries, Backoff: limits.DefaultBackoff, Retention: queue.DefaultRetention,
	}
	pulled(key, &c)
	if i, ok := integer(key("maxBatchSize"), 1, queue.MaxBatchSize); ok {
		c.BatchSize = i
	}
	if d, ok := seconds(key("maxBatchTimeout"), 0, queue.MaxBatchTimeout); ok {
		c.BatchTimeout = d
	}
	if i, ok := integer(key("maxRetries"), 0, limits.MaxRetries); ok {
		c.MaxRetries = i
	}
	if v := key("maxConcurrency"); !v.IsNull() {
		if i, ok := integer(v, 1, queue.MaxConcurrency); ok {
			c.MaxConcurrency = i
		}
	}
	if d, ok := seconds(key("retryDelay"), 0, queue.MaxDelay); ok {
		c.Backoff = queue.Backoff{First: d, Max: d}
	}
	if v := key("deadLetterQueue"); v.Exists() {
		c.DeadLetterQueue = CheckName(v, "a queue name")
		if c.DeadLetterQueue != "" && c.DeadLetterQueue == c.Queue {
			v.Refusef(`name another queue, like "`+deadName(c.Queue)+`"`, "queue `%s` is its own dead-letter queue", c.Queue)
		}
	}
	if q.Consumer != nil {
		q.Consumer(entry, &c)
	}
	c.HandlerTime = queue.HandlerTime(q.Dialect, c.BatchTimeout)
	return c, c.Queue != ""
}

func deadName(name string) string {
	if dead := name + "-dead"; queue.ValidName(dead) {
		return dead
	}
	return "dead"
}

// Retention reads how long messages stay, in seconds.
func Retention(v source.Value, c *queue.Consumer) {
	if d, ok := seconds(v, queue.MinRetention, queue.MaxRetention); ok {
		c.Retention = d
	}
}

// The types of consumer.
const (
	typeWorker = "worker"
	typePull   = "http_pull"
)

// pulled reads whether a queue is drained over HTTP, and says which keys do not count then.
func pulled(key func(camel string) source.Value, c *queue.Consumer) {
	kind := key("type")
	if text, ok := kind.Text(); ok {
		c.Pull = text == typePull
		if !c.Pull && text != typeWorker {
			kind.Refusef(`write "worker" for the queue handler, or "http_pull" for whoever pulls over HTTP`,
				"`type` must be \"worker\" or \"http_pull\", found %s", source.Quote(text))
		}
	}
	ignored, who := []string{"visibilityTimeoutMs"}, "it is for pull consumers"
	if c.Pull {
		c.BatchSize, c.Visibility = queue.DefaultPull, queue.DefaultVisibility
		ignored, who = []string{"maxBatchTimeout", "maxConcurrency"}, "it is for consumers with a queue handler"
	}
	visibility := key("visibilityTimeoutMs")
	milli, ok := visibility.Integer("a whole number of milliseconds", queue.MinVisibility.Milliseconds(), queue.MaxVisibility.Milliseconds())
	if ok && c.Pull {
		c.Visibility = time.Duration(milli) * time.Millisecond
	}
	for _, name := range ignored {
		if v := key(name); v.Exists() && (ok || c.Pull) {
			v.Warnf("", "`%s` is ignored: %s", v.Key(), who)
		}
	}
}

func integer(v source.Value, lo, hi int) (int, bool) {
	i, ok := v.Integer("an integer", int64(lo), int64(hi))
	return int(i), ok
}

func seconds(v source.Value, lo, hi time.Duration) (time.Duration, bool) {
	i, ok := v.Integer("a whole number of seconds", int64(math.Ceil(lo.Seconds())), int64(hi.Seconds()))
	return time.Duration(i) * time.Second, ok
}
