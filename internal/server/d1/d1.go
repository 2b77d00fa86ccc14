// Package d1 answers what workerd's own D1 client calls for the bindings of env: statements with their values as JSON,
// answered with rows as JSON. One handler serves one worker process on a private unix socket.
package d1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/d1"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

const (
	// Header is the request header in which the runtime names the binding that is called. User code cannot set it.
	Header = "Runlot-D1"
	// bookmarkHeader carries the bookmark of a session, both ways.
	bookmarkHeader = "X-Cf-D1-Session-Commit-Token"
)

// Databases are the databases as bindings need them.
type Databases interface {
	// Run runs the queries in order as one transaction, of which nothing is left when one fails. What the caller may see of
	// a failure is a d1.Error. When ctx ends, what runs is ended and rolled back.
	Run(ctx context.Context, identity string, queries []d1.Query) ([]d1.Result, error)
}

// Door is what the handlers of all worker processes of a node share.
type Door struct {
	databases Databases
	log       *slog.Logger
	room      *semaphore.Weighted
	bookmark  atomic.Int64
}

// NewDoor returns a door to the databases. log takes what callers must not see.
func NewDoor(databases Databases, log *slog.Logger) *Door {
	return &Door{databases: databases, log: log, room: semaphore.NewWeighted(queue.D1RequestsBytes)}
}

// Handler returns the handler for one worker process, whose app has this manifest. A call is answered after its commit; a
// caller that goes away before that takes its statements back.
func (d *Door) Handler(m *app.Manifest) http.Handler {
	identities := make(map[string]string, len(m.D1Databases))
	for i := range m.D1Databases {
		identities[m.D1Databases[i].Binding] = m.D1Databases[i].Identity()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		identity, known := identities[r.Header.Get(Header)]
		switch r.Method + " " + r.URL.Path {
		case "POST /query", "POST /execute":
			if known {
				d.serve(w, r, identity)
				return
			}
		}
		discard(w, r)
		http.NotFound(w, r) // also what dump() gets, which Cloudflare has withdrawn
	})
}

func (d *Door) serve(w http.ResponseWriter, r *http.Request, identity string) {
	answer, err := d.run(w, r, identity)
	if err != nil {
		discard(w, r)
		answer = d.failure(r, err)
	}
	if r.Header.Get(bookmarkHeader) != "" && err == nil {
		w.Header().Set(bookmarkHeader, d.nextBookmark())
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	_, _ = w.Write(answer) //nolint:gosec // JSON, not HTML; a caller that went away misses what is committed all the same
}

// run reads a call, runs it and returns the answer.
func (d *Door) run(w http.ResponseWriter, r *http.Request, identity string) ([]byte, error) {
	if r.ContentLength > queue.D1RequestBytes {
		return nil, tooLarge()
	}
	size := r.ContentLength
	if size < 0 {
		size = queue.D1RequestBytes
	}
	if err := d.room.Acquire(r.Context(), size); err != nil {
		return nil, fmt.Errorf("wait for room: %w", err)
	}
	defer d.room.Release(size)
	body, err := read(w, r)
	if err != nil {
		return nil, err
	}
	queries, err := decode(body)
	if err != nil {
		return nil, err
	}
	results, err := d.databases.Run(r.Context(), identity, queries)
	if err != nil {
		return nil, err
	}
	return Encode(results, r.URL.Query().Get("resultsFormat") == "ROWS_AND_COLUMNS"), nil
}

func tooLarge() error {
	return &d1.Error{Text: fmt.Sprintf("The call is larger than %d bytes.", queue.D1RequestBytes), Query: -1}
}

// read reads the body within queue.SendTimeout.
func read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if err := readDeadline(w, time.Now().Add(queue.SendTimeout)); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, queue.D1RequestBytes+1))
	if err != nil {
		return nil, &d1.Error{Text: "The request ended early.", Query: -1, Cause: err}
	}
	if len(body) > queue.D1RequestBytes {
		return nil, tooLarge()
	}
	return body, readDeadline(w, time.Time{})
}

// discard reads what is left of a refused body: workerd sends the whole of it before it looks at the answer.
func discard(w http.ResponseWriter, r *http.Request) {
	if err := readDeadline(w, time.Now().Add(queue.SendTimeout)); err == nil {
		_, _ = io.CopyN(io.Discard, r.Body, queue.MaxBindingDiscard)
	}
}

func readDeadline(w http.ResponseWriter, at time.Time) error {
	err := http.NewResponseController(w).SetReadDeadline(at)
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

// failure is the answer to a call that failed. What is no fault of the caller's goes to the log, and the caller learns
// only that it happened.
func (d *Door) failure(r *http.Request, err error) []byte {
	text := "internal error; the log of the server has the details"
	if e, ok := errors.AsType[*d1.Error](err); ok {
		text = e.Text
	} else if r.Context().Err() == nil {
		d.log.ErrorContext(r.Context(), "D1 call failed", "binding", r.Header.Get(Header), "error", fault.Detail(err))
	}
	answer := append([]byte(nil), `{"success":false,"error":`...)
	return append(appendText(answer, strings.TrimSpace(text)), '}')
}

// nextBookmark returns a bookmark that sorts after every earlier one. There is one copy of a database, so that any
// bookmark is satisfied.
func (d *Door) nextBookmark() string {
	for {
		last := d.bookmark.Load()
		next := max(last+1, time.Now().UnixMicro())
		if d.bookmark.CompareAndSwap(last, next) {
			return fmt.Sprintf("%016x", next)
		}
	}
}
