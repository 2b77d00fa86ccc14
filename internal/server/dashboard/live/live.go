// Package live keeps views of the page up to date: over one stream of server-sent events for each view, which carries the
// fragments of it that changed.
package live

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// Fragment is an element of a view that is replaced as a whole when it changed.
type Fragment struct {
	// ID is the id of the element.
	ID string
	// Render writes the element.
	Render func(w io.Writer) error
	// Parts are elements that the element with the id List, in it, is made of, in order, for one that is large: only those
	// that changed are sent, and the order when it changed. The rest of the element is taken to be as it was, unless the
	// first part comes or the last one goes.
	List  string
	Parts []Fragment
}

// EndedError is the error of a look after which there is no view any more: the browser is to load the page again.
type EndedError struct{ Reason string }

// Error implements error.
func (e *EndedError) Error() string { return "the view has ended: " + e.Reason }

// Hub bounds the streams of an instance, and ends them.
type Hub struct {
	slots chan struct{}
	stop  chan struct{}
	once  sync.Once
}

// NewHub returns a hub without streams.
func NewHub() *Hub {
	return &Hub{slots: make(chan struct{}, queue.LiveStreams), stop: make(chan struct{})}
}

// Stop ends all streams, and lets no more begin. The goroutines are those of the requests, which their server waits for.
func (h *Hub) Stop() { h.once.Do(func() { close(h.stop) }) }

func (h *Hub) stopped() bool {
	select {
	case <-h.stop:
		return true
	default:
		return false
	}
}

// writeTime is how long a client may take to read an event.
const writeTime = 20 * time.Second

// patience is the factor by which the time between two looks exceeds that of a look, so that slow ones take a part of
// the processor only.
const patience = 5

// Serve sends what changes until the client goes away. Look returns the fragments of the view as they are now; an error
// other than *EndedError is told to the client, and the next look may be better. Status 503 says that there are too many
// streams.
func (h *Hub) Serve(w http.ResponseWriter, r *http.Request, look func(ctx context.Context) ([]Fragment, error)) {
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		w.Header().Set("Retry-After", strconv.Itoa(int(queue.LiveBeat/time.Second)))
		http.Error(w, "too many views are kept up to date at the moment", http.StatusServiceUnavailable)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // else the server takes the stream for a request that does not arrive; a fake one has none
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy is not to wait for more
	s := &stream{out: out, w: w, known: map[string]uint64{}, order: map[string][]string{}, seed: maphash.MakeSeed()}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.stop:
			return
		case <-timer.C:
		}
		if h.stopped() {
			return
		}
		began := time.Now()
		fragments, err := look(ctx)
		if err != nil && ctx.Err() != nil {
			return
		}
		if !s.tell(fragments, err) {
			return
		}
		timer.Reset(max(queue.LiveEvery, patience*time.Since(began)))
	}
}

// stream is what a client knows.
type stream struct {
	out   *http.ResponseController
	w     io.Writer
	seed  maphash.Seed
	known map[string]uint64   // by id of a fragment, the hash of what was sent
	order map[string][]string // by id of a fragment, the ids of its parts
	said  time.Time           // when anything was sent
	stale bool                // the client knows that the last look failed
}

// change is one fragment as it is sent: its element, or, for a list, the parts of it that changed or came, and the order
// of all.
type change struct {
	ID    string   `json:"id"`
	HTML  string   `json:"html,omitempty"`
	Order []string `json:"order,omitempty"`
	Parts []change `json:"parts,omitempty"`
}

// tell sends what is new, and reports whether the stream goes on.
func (s *stream) tell(fragments []Fragment, err error) bool {
	if ended, ok := err.(*EndedError); ok { //nolint:errorlint // a look returns it as it is
		_ = s.send("ended", map[string]string{"reason": ended.Reason})
		return false
	}
	if err != nil {
		s.stale = true
		return s.send("stale", map[string]string{"reason": err.Error()}) == nil
	}
	var changes []change
	for i := range fragments {
		if changes, err = s.compare(changes, &fragments[i]); err != nil {
			s.stale = true
			return s.send("stale", map[string]string{"reason": "the view cannot be drawn"}) == nil
		}
	}
	if len(changes) == 0 && !s.stale && time.Since(s.said) < queue.LiveBeat {
		return true
	}
	s.stale = false
	if changes == nil {
		changes = []change{}
	}
	return s.send("update", changes) == nil
}

func (s *stream) compare(changes []change, f *Fragment) ([]change, error) {
	if f.List == "" {
		text, isNew, err := s.render(f)
		if isNew {
			changes = append(changes, change{ID: f.ID, HTML: text})
		}
		return changes, err
	}
	ids := make([]string, len(f.Parts))
	var changed []change
	for i := range f.Parts {
		p := &f.Parts[i]
		ids[i] = p.ID
		text, isNew, err := s.render(p)
		if err != nil {
			return nil, err
		}
		if isNew {
			changed = append(changed, change{ID: p.ID, HTML: text})
		}
	}
	before, was := s.order[f.ID]
	same := slices.Equal(before, ids)
	if was && same {
		return append(changes, changed...), nil
	}
	for _, id := range before {
		if !slices.Contains(ids, id) {
			delete(s.known, id)
		}
	}
	s.order[f.ID] = ids
	if was && len(before) > 0 && len(ids) > 0 {
		return append(changes, change{ID: f.List, Order: ids, Parts: changed}), nil
	}
	var b bytes.Buffer
	err := f.Render(&b)
	return append(changes, change{ID: f.ID, HTML: b.String()}), err
}

// render draws a fragment, and reports whether the client does not have it like this.
func (s *stream) render(f *Fragment) (text string, isNew bool, err error) {
	var b bytes.Buffer
	if err := f.Render(&b); err != nil {
		return "", false, err
	}
	sum := maphash.Bytes(s.seed, b.Bytes())
	if before, ok := s.known[f.ID]; ok && before == sum {
		return "", false, nil
	}
	s.known[f.ID] = sum
	return b.String(), true, nil
}

func (s *stream) send(event string, data any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(data); err != nil {
		return err
	}
	s.said = time.Now()
	_ = s.out.SetWriteDeadline(s.said.Add(writeTime)) // a fake one has none
	if _, err := fmt.Fprintf(s.w, "event: %s\ndata: %s\n", event, text.String()); err != nil {
		return err
	}
	return s.out.Flush()
}
