package numbers

import (
	"cmp"
	"slices"
	"sync"

	"github.com/runlot/runlot/internal/adapter/prometheus"
	"github.com/runlot/runlot/internal/engine/schedule"
)

// Runs counts scheduled runs on their way to the next recorder.
type Runs struct {
	next schedule.Recorder

	mu     sync.Mutex
	counts map[prometheus.Runs]int64 // with a Count of 0 as the key; guarded by mu
}

// CountRuns returns a recorder that counts before next gets the record.
func CountRuns(next schedule.Recorder) *Runs {
	return &Runs{next: next, counts: map[prometheus.Runs]int64{}}
}

// Run implements schedule.Recorder.
func (r *Runs) Run(record *schedule.Record) {
	r.mu.Lock()
	r.counts[prometheus.Runs{App: record.App, Outcome: string(record.Outcome)}]++
	r.mu.Unlock()
	r.next.Run(record)
}

// Counts are the runs so far, by app and outcome.
func (r *Runs) Counts() []prometheus.Runs {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]prometheus.Runs, 0, len(r.counts))
	for key, n := range r.counts {
		key.Count = n
		list = append(list, key)
	}
	slices.SortFunc(list, func(a, b prometheus.Runs) int {
		return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Outcome, b.Outcome))
	})
	return list
}

// APICalls counts the calls of the API. The zero value is ready.
type APICalls struct {
	mu     sync.Mutex
	counts map[prometheus.Calls]int64 // with a Count of 0 as the key; guarded by mu
}

// Observe counts a call that was answered.
func (c *APICalls) Observe(operation string, status int) {
	const digit = 100
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[prometheus.Calls]int64{}
	}
	c.counts[prometheus.Calls{Operation: operation, Class: status / digit}]++
}

// Counts are the calls so far, by operation and class of the status.
func (c *APICalls) Counts() []prometheus.Calls {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]prometheus.Calls, 0, len(c.counts))
	for key, n := range c.counts {
		key.Count = n
		list = append(list, key)
	}
	slices.SortFunc(list, func(a, b prometheus.Calls) int {
		return cmp.Or(cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Class, b.Class))
	})
	return list
}
