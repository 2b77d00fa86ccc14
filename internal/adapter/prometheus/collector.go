package prometheus

import (
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/series"
	"github.com/runlot/runlot/internal/engine/supervise"
)

// collector asks for facts when Prometheus comes.
type collector struct {
	facts func() *Facts
	list  [metrics]*prometheus.Desc
}

// Registry is everything that is shown: the table, and what client_golang knows of the process and of Go.
func Registry(facts func() *Facts) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		&collector{facts: facts, list: descriptions()},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return r
}

// Handler answers Prometheus. It asks for no token: that is for the door before it.
func Handler(facts func() *Facts, log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(Registry(facts), promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn), ErrorHandling: promhttp.ContinueOnError,
		MaxRequestsInFlight: queue.MetricsReaders, Timeout: queue.MetricsTime,
	})
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.list {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	e := &emitter{list: &c.list, out: out}
	f := c.facts()
	e.gauge(buildInfo, 1, f.Version)
	for i := range f.Databases {
		e.database(&f.Databases[i])
	}
	for i := range f.Pools {
		e.pool(&f.Pools[i])
	}
	for _, a := range bounded(f.Apps) {
		e.app(&a)
	}
	for _, r := range f.Runs {
		e.count(cronRuns, r.Count, r.App, r.Outcome)
	}
	for _, call := range f.Calls {
		e.count(apiCalls, call.Count, call.Operation, class(call.Class))
	}
}

// class is how a class of status codes is written.
func class(digit int) string { return strconv.Itoa(digit) + "xx" }

// other is the name of what is beyond a bound.
const other = "other"

// bounded puts the apps beyond queue.MetricsApps together.
func bounded(apps []App) []App {
	if len(apps) <= queue.MetricsApps {
		return apps
	}
	rest := App{Name: other}
	for i := range apps[queue.MetricsApps:] {
		a := &apps[queue.MetricsApps+i]
		rest.Starts, rest.Crashes, rest.MemoryBytes, rest.Active = rest.Starts+a.Starts, rest.Crashes+a.Crashes, rest.MemoryBytes+a.MemoryBytes, rest.Active+a.Active
		for class, n := range a.Requests {
			rest.Requests[class] += n
		}
	}
	return append(apps[:queue.MetricsApps:queue.MetricsApps], rest)
}

// emitter writes metrics of the table.
type emitter struct {
	list *[metrics]*prometheus.Desc
	out  chan<- prometheus.Metric
}

func (e *emitter) gauge(which int, value float64, labels ...string) {
	e.out <- prometheus.MustNewConstMetric(e.list[which], prometheus.GaugeValue, value, labels...)
}

func (e *emitter) count(which int, n int64, labels ...string) {
	e.out <- prometheus.MustNewConstMetric(e.list[which], prometheus.CounterValue, float64(n), labels...)
}

// shown are the bounds of the buckets of times that are shown: every second or third of series.Bounds.
var shown = []time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second,
	10 * time.Second, 20 * time.Second, 50 * time.Second, 100 * time.Second, 200 * time.Second, 500 * time.Second, 1000 * time.Second,
}

// times shows a histogram of times up to a bound.
func (e *emitter) times(which int, h *series.Histogram, total, most time.Duration, labels ...string) {
	buckets := make(map[float64]uint64, len(shown))
	var below int64
	at := 0
	for _, bound := range shown {
		for ; at < len(series.Bounds) && series.Bounds[at] <= bound; at++ {
			below += h[at]
		}
		if bound <= most {
			buckets[bound.Seconds()] = uint64(below)
		}
	}
	e.out <- prometheus.MustNewConstHistogram(e.list[which], uint64(h.Total()), total.Seconds(), buckets, labels...)
}

func (e *emitter) database(d *Database) {
	up := 0.0
	if d.Up {
		up = 1
	}
	e.gauge(databaseUp, up, d.Name)
	if d.Up {
		e.gauge(databaseOperations, float64(d.Operations), d.Name)
		e.gauge(databaseOperationsLimit, float64(d.Limit), d.Name)
	}
	e.commits(d.Name, "send", &d.Sends)
	e.commits(d.Name, "settle", &d.Settles)
	held := make(map[string]int64, len(d.Queues))
	for i := range d.Queues {
		q := &d.Queues[i]
		e.queue(d.Name, q)
		if d.Up && q.Queue != "" {
			held[q.Queue] = q.Visible + q.Delayed + q.InFlight
			e.depth(d.Name, q)
		}
	}
	for of, dead := range d.DeadLetterQueues {
		if n, ok := held[dead]; ok {
			e.gauge(queueDead, float64(n), d.Name, of)
		}
	}
}

func (e *emitter) commits(name, kind string, c *series.Committed) {
	// A commit that takes longer is cut off.
	e.times(commitTime, &c.Times, c.Time, queue.SendTimeout, name, kind)
	buckets := make(map[float64]uint64, len(series.Sizes))
	var below int64
	for i, size := range series.Sizes {
		below += c.Sizes[i]
		buckets[float64(size)] = uint64(below)
	}
	e.out <- prometheus.MustNewConstHistogram(e.list[commitMessages], uint64(below+c.Sizes[len(series.Sizes)]), float64(c.Messages), buckets, name, kind)
}

func (e *emitter) queue(in string, q *series.Watched) {
	name := q.Queue
	if name == "" {
		name = other
	}
	e.count(queueSent, q.Sent, in, name)
	e.count(queueSentBytes, q.SentBytes, in, name)
	e.count(queueArrived, q.Arrived, in, name)
	e.count(queueLeft, q.Left, in, name)
	e.count(queueDelivered, q.Delivered, in, name)
	for _, r := range []struct {
		result string
		n      int64
	}{{"acked", q.Acked}, {"retried", q.Retried}, {"redelivered", q.Redelivered}, {"dead", q.Dead}, {"dropped", q.Dropped}} {
		e.count(queueSettled, r.n, in, name, r.result)
	}
	e.count(queueExpired, q.Expired, in, name)
	for i, n := range q.Batches {
		e.count(queueBatches, n, in, name, string(series.Outcomes[i]))
	}
	if q.Allowed > 0 || q.Handler.Total() > 0 {
		e.times(queueHandler, &q.Handler, q.HandlerTime, series.Bounds[len(series.Bounds)-1], in, name)
	}
}

// depth shows how a queue is now.
func (e *emitter) depth(in string, q *series.Watched) {
	e.gauge(queueMessages, float64(q.Visible), in, q.Queue, "visible")
	e.gauge(queueMessages, float64(q.Delayed), in, q.Queue, "delayed")
	e.gauge(queueMessages, float64(q.InFlight), in, q.Queue, "in_flight")
	e.gauge(queueOldest, q.Oldest.Seconds(), in, q.Queue)
	e.gauge(queueCalls, float64(q.Running), in, q.Queue)
	e.gauge(queueCallsLimit, float64(q.Allowed), in, q.Queue)
	e.gauge(queueLane, float64(q.LaneBytes), in, q.Queue)
}

func (e *emitter) pool(p *Pool) {
	e.gauge(poolConnections, float64(p.Busy), p.Database, p.Use, "busy")
	e.gauge(poolConnections, float64(p.Idle), p.Database, p.Use, "idle")
	e.gauge(poolLimit, float64(p.Limit), p.Database, p.Use)
	e.count(poolWaits, p.Waits, p.Database, p.Use)
	e.out <- prometheus.MustNewConstMetric(e.list[poolWaitTime], prometheus.CounterValue, p.Waited.Seconds(), p.Database, p.Use)
}

// phases are what an app can do.
var phases = []supervise.Phase{supervise.Live, supervise.Parked, supervise.Starting, supervise.Restarting, supervise.Stopped}

func (e *emitter) app(a *App) {
	if a.Name != other {
		for _, p := range phases {
			is := 0.0
			if a.Phase == string(p) {
				is = 1
			}
			e.gauge(appState, is, a.Name, string(p))
		}
	}
	e.count(appStarts, a.Starts, a.Name)
	e.count(appCrashes, a.Crashes, a.Name)
	e.gauge(appMemory, float64(a.MemoryBytes), a.Name)
	for digit := 1; digit < len(a.Requests); digit++ {
		e.count(appRequests, a.Requests[digit], a.Name, class(digit))
	}
	e.gauge(appActive, float64(a.Active), a.Name)
}
