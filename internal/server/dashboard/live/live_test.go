package live

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/core/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// view is a page whose rows a test changes.
type view struct {
	mu   sync.Mutex
	head string
	rows []string // "id=text"
	err  error
}

func (v *view) set(change func(v *view)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	change(v)
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

func (v *view) look(context.Context) ([]Fragment, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	list := Fragment{ID: "rows", List: "body", Render: text("<" + strings.Join(v.rows, ",") + ">")}
	for _, row := range v.rows {
		id, _, _ := strings.Cut(row, "=")
		list.Parts = append(list.Parts, Fragment{ID: id, Render: text(row)})
	}
	return []Fragment{{ID: "head", Render: text(v.head)}, list}, v.err
}

// recorder is a client that keeps what it reads.
type recorder struct {
	*httptest.ResponseRecorder

	mu   sync.Mutex
	text string
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text += string(p)
	return len(p), nil
}

// take returns the events since the last call, with the HTML of each id.
func (r *recorder) take(t *testing.T) []string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []string
	for event := range strings.SplitSeq(strings.TrimSuffix(r.text, "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(event, "\ndata: ")
		if !ok {
			continue
		}
		said := strings.TrimPrefix(name, "event: ")
		if said == "update" {
			var changes []change
			if err := json.Unmarshal([]byte(data), &changes); err != nil {
				t.Error(err)
			}
			for _, c := range changes {
				said += " " + c.ID + ":" + c.HTML + strings.Join(c.Order, "")
				for _, p := range c.Parts {
					said += " " + p.ID + ":" + p.HTML
				}
			}
		} else {
			said += " " + data
		}
		list = append(list, said)
	}
	r.text = ""
	return list
}

func TestOnlyWhatChangedIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, h, w := &view{head: "h1", rows: []string{"a=1", "b=1"}}, NewHub(), &recorder{ResponseRecorder: httptest.NewRecorder()}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.Serve(w, httptest.NewRequest(http.MethodGet, "/live/", http.NoBody).WithContext(ctx), v.look)
		}()
		after := func(d time.Duration, want ...string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if diff := cmp.Diff(want, w.take(t)); diff != "" {
				t.Error(diff)
			}
		}
		after(0, "update head:h1 rows:<a=1,b=1>")
		after(5 * queue.LiveEvery)
		v.set(func(v *view) { v.rows[1] = "b=2" })
		after(queue.LiveEvery, "update b:b=2")
		v.set(func(v *view) { v.rows = []string{"b=3", "c=1"} })
		after(queue.LiveEvery, "update body:bc b:b=3 c:c=1")
		v.set(func(v *view) { v.rows = []string{"c=1", "b=3", "a=1"} })
		after(queue.LiveEvery, "update body:cba a:a=1")
		v.set(func(v *view) { v.rows = nil })
		after(queue.LiveEvery, "update rows:<>")
		v.set(func(v *view) { v.rows = []string{"b=3", "c=1"} })
		after(queue.LiveEvery, "update rows:<b=3,c=1>")
		v.set(func(v *view) { v.rows, v.head = []string{"b=3", "c=2"}, "h2" })
		after(queue.LiveEvery, "update head:h2 c:c=2")
		after(queue.LiveBeat, "update")
		v.set(func(v *view) { v.err = errors.New("it does not answer") })
		after(queue.LiveEvery, `stale {"reason":"it does not answer"}`)
		v.set(func(v *view) { v.err = nil })
		after(queue.LiveEvery, "update")
		cancel()
		<-done
	})
}

func TestASlowLookWaitsLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, looks := NewHub(), 0
		ctx, cancel := context.WithTimeout(t.Context(), 59*time.Second)
		defer cancel()
		h.Serve(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody).WithContext(ctx), func(context.Context) ([]Fragment, error) {
			looks++
			time.Sleep(time.Second)
			return nil, nil
		})
		if looks != 10 {
			t.Errorf("%d looks of a second in a minute, want one every 6 s", looks)
		}
	})
}

func TestStreamsAreBoundedAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, v := NewHub(), &view{}
		var wg sync.WaitGroup
		serve := func(w http.ResponseWriter) {
			h.Serve(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody).WithContext(t.Context()), v.look)
		}
		for range queue.LiveStreams {
			wg.Go(func() { serve(httptest.NewRecorder()) })
		}
		synctest.Wait()
		w := httptest.NewRecorder()
		serve(w)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("one more: %d %v", w.Code, w.Header())
		}
		h.Stop()
		wg.Wait()
		w = httptest.NewRecorder()
		serve(w)
		if w.Body.Len() > 0 && w.Code == http.StatusOK {
			t.Errorf("after the stop: %q", w.Body)
		}
	})
}

func TestAViewThatEndedEndsItsStream(t *testing.T) {
	w, h := &recorder{ResponseRecorder: httptest.NewRecorder()}, NewHub()
	h.Serve(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody), func(context.Context) ([]Fragment, error) {
		return nil, &EndedError{"signed out"}
	})
	if diff := cmp.Diff([]string{`ended {"reason":"signed out"}`}, w.take(t)); diff != "" {
		t.Error(diff)
	}
}
