//go:build linux

package durability_test

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// The queues of the project.
const (
	jobs = "jobs"
	dead = "jobs-dead"
)

// The bounds that testdata/app/runlot.json declares, and the one that follows from them: with so few calls the dispatcher
// has at most unsettledBatches of a queue between lease and commit.
const (
	batchSize        = 10
	maxRetries       = 2
	jobsConcurrency  = 8
	deadConcurrency  = 2
	unsettledBatches = 16
)

// body is what a message carries.
type body struct {
	ID string `json:"id"`
	// Fails is how many deliveries fail on purpose, How in which way: "now" and "later" ask for a retry, "throw" throws.
	Fails int    `json:"fails"`
	How   string `json:"how"`
	// Text makes the messages differ in size.
	Text string `json:"text"`
}

// deadLetter reports whether a message fails until it is out of retries.
func (b *body) deadLetter() bool { return b.Fails > maxRetries }

// message is what is known of one message.
type message struct {
	body body
	// call numbers the send or sendBatch that it was part of.
	call         int
	batch        bool
	acknowledged bool
	deliveries   []delivery
}

// delivery is one that the handler reported.
type delivery struct {
	at        time.Time
	queue     string
	id        string
	timestamp string
	attempts  int
	body      body
}

// settles reports whether the handler acks the message in this delivery.
func (d *delivery) settles() bool { return d.queue == dead || d.attempts > d.body.Fails }

// finished reports whether the handler has acked the message.
func (m *message) finished() bool {
	for i := range m.deliveries {
		if m.deliveries[i].settles() {
			return true
		}
	}
	return false
}

// death is one kill. It is over when a send that began after it was acknowledged.
type death struct {
	kind     string
	at, over time.Time
}

// history is everything that happened, as its clients and its handler saw it.
type history struct {
	mu       sync.Mutex
	messages map[string]*message // by body.ID; guarded by mu
	calls    int                 // guarded by mu
	failed   int                 // sends that failed; guarded by mu
	unknown  []string            // deliveries of what was never sent; guarded by mu
	open     int                 // acknowledged and not finished; guarded by mu
	deaths   []death             // only the test's own goroutine uses it
}

func newHistory() *history { return &history{messages: map[string]*message{}} }

// sending notes the messages of a call before it is made.
func (h *history) sending(bodies []body) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	for _, b := range bodies {
		h.messages[b.ID] = &message{body: b, call: h.calls, batch: len(bodies) > 1}
	}
}

// sent notes how the call ended.
func (h *history) sent(bodies []body, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.failed++
		return
	}
	for _, b := range bodies {
		m := h.messages[b.ID]
		m.acknowledged = true
		if !m.finished() {
			h.open++
		}
	}
}

// unfinished is the number of messages that were acknowledged and have not been acked by the handler.
func (h *history) unfinished() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.open
}

// deliver notes a delivery.
func (h *history) deliver(d delivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.messages[d.body.ID]
	if m == nil {
		h.unknown = append(h.unknown, d.body.ID)
		return
	}
	if m.acknowledged && !m.finished() && d.settles() {
		h.open--
	}
	m.deliveries = append(m.deliveries, d)
}

// ServeHTTP is the collector: the handler reports each batch to it before it settles anything.
func (h *history) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	var report struct {
		Queue    string `json:"queue"`
		Messages []struct {
			ID        string `json:"id"`
			Timestamp string `json:"timestamp"`
			Attempts  int    `json:"attempts"`
			Body      body   `json:"body"`
		} `json:"messages"`
	}
	if err := json.NewDecoder(r.Body).Decode(&report); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, m := range report.Messages {
		h.deliver(delivery{at: at, queue: report.Queue, id: m.ID, timestamp: m.Timestamp, attempts: m.Attempts, body: m.Body})
	}
	w.WriteHeader(http.StatusNoContent)
}
