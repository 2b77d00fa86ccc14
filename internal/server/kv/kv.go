// Package kv answers what workerd's own KV client calls for the bindings of env. One handler serves one worker process on a
// private unix socket.
package kv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/kv"
	"github.com/runlot/runlot/internal/core/queue"
)

const (
	// Header is the request header in which the runtime names the binding that is called. User code cannot set it.
	Header = "Runlot-Kv"
	// metadataHeader carries the metadata of a value, both ways.
	metadataHeader = "Cf-Kv-Metadata"
)

// Namespaces are the namespaces as bindings need them. What the caller may see of a failure is a *kv.Error or kv.ErrFull.
type Namespaces interface {
	// Get returns the entry of a key, or nil. A value of more than most bytes is left out; its size is returned.
	Get(ctx context.Context, identity, key string, most int) (entry *kv.Entry, size int, err error)
	// GetMany returns the entries of those keys that are there; values of more than most bytes together are refused.
	GetMany(ctx context.Context, identity string, keys []string, most int) (map[string]*kv.Entry, error)
	// Put and Delete return when the change is on the disk.
	Put(ctx context.Context, identity string, e *kv.Entry) error
	Delete(ctx context.Context, identity, key string) error
	List(ctx context.Context, identity string, q kv.Query) (*kv.Page, error)
}

// Door is what the handlers of all worker processes of a node share.
type Door struct {
	namespaces Namespaces
	log        *slog.Logger
	room       *semaphore.Weighted
	now        func() time.Time
}

// NewDoor returns a door to the namespaces. log takes what callers must not see.
func NewDoor(namespaces Namespaces, log *slog.Logger) *Door {
	return &Door{namespaces: namespaces, log: log, room: semaphore.NewWeighted(queue.KVRequestsBytes), now: time.Now}
}

// Handler returns the handler for one worker process, whose app has this manifest. A put or delete is answered when it is on
// the disk.
func (d *Door) Handler(m *app.Manifest) http.Handler {
	identities := make(map[string]string, len(m.KVNamespaces))
	for i := range m.KVNamespaces {
		identities[m.KVNamespaces[i].Binding] = m.KVNamespaces[i].Namespace
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{Door: d, w: w, r: r}
		var known bool
		if c.identity, known = identities[r.Header.Get(Header)]; !known {
			c.fail(&kv.Error{Status: http.StatusNotFound, Text: "the app has no such KV namespace"})
			return
		}
		if err := c.serve(); err != nil {
			c.fail(err)
		}
	})
}

// call is one request.
type call struct {
	*Door
	w        http.ResponseWriter
	r        *http.Request
	identity string
}

func (c *call) serve() error {
	key := strings.TrimPrefix(c.r.URL.Path, "/")
	switch {
	case c.r.Method == http.MethodGet && key == "":
		return c.list()
	case c.r.Method == http.MethodGet:
		return c.get(key)
	case c.r.Method == http.MethodPut:
		return c.put(key)
	case c.r.Method == http.MethodDelete:
		return c.delete(key)
	case c.r.Method == http.MethodPost && key == "bulk/get":
		return c.bulk()
	}
	return &kv.Error{Status: http.StatusNotFound, Text: "there is no such call"}
}

// take waits for room; the caller releases what it got.
func (c *call) take(size int) (release func(), err error) {
	if err := c.room.Acquire(c.r.Context(), int64(size)); err != nil {
		return nil, fmt.Errorf("wait for room: %w", err)
	}
	return func() { c.room.Release(int64(size)) }, nil
}

// get answers with a value, or status 404. The room that a large one takes is known after the first look only.
func (c *call) get(key string) error {
	if err := errors.Join(kv.CheckKey(key), kv.CheckCacheTTL(c.r.URL.Query().Get("cache_ttl"))); err != nil {
		return err
	}
	for most := queue.KVSmallBytes; ; {
		entry, size, err := c.getWithin(key, most)
		if err != nil || entry == nil || size <= most {
			return err
		}
		most = size
	}
}

// getWithin answers unless the value has more than most bytes.
func (c *call) getWithin(key string, most int) (*kv.Entry, int, error) {
	if most > queue.KVSmallBytes {
		release, err := c.take(most)
		if err != nil {
			return nil, 0, err
		}
		defer release()
	}
	entry, size, err := c.namespaces.Get(c.r.Context(), c.identity, key, most)
	switch {
	case err != nil:
		return nil, 0, err
	case entry == nil:
		c.w.WriteHeader(http.StatusNotFound)
	case size <= most:
		if entry.Metadata != nil {
			c.w.Header().Set(metadataHeader, string(entry.Metadata))
		}
		c.write("application/octet-stream", entry.Value)
	}
	return entry, size, nil
}

// write sends an answer, for which the worker has its time.
func (c *call) write(kind string, body []byte) {
	c.deadline((*http.ResponseController).SetWriteDeadline)
	c.w.Header().Set("Content-Type", kind)
	c.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = c.w.Write(body) // a worker that went away misses only what it asked for
}

// deadline bounds the transfer of a value; a writer of tests has none.
func (c *call) deadline(set func(*http.ResponseController, time.Time) error) {
	_ = set(http.NewResponseController(c.w), time.Now().Add(queue.KVTransferTime)) // a connection that is broken says so when it is used
}

func (c *call) put(key string) error {
	q := c.r.URL.Query()
	expiration, err := kv.Expiration(q.Get("expiration"), q.Get("expiration_ttl"), c.now())
	about := c.r.Header.Get(metadataHeader)
	if err = errors.Join(kv.CheckKey(key), err, kv.CheckMetadata(about), kv.CheckValue(c.r.ContentLength)); err != nil {
		return err
	}
	e := &kv.Entry{Key: kv.Key{Name: key, Expiration: expiration}}
	if about != "" {
		e.Metadata = []byte(about)
	}
	size := int(c.r.ContentLength)
	if size < 0 {
		size = queue.KVValueBytes
	}
	release, err := c.take(size)
	if err != nil {
		return err
	}
	defer release()
	if e.Value, err = c.body(queue.KVValueBytes); err != nil {
		return err
	}
	return c.namespaces.Put(c.r.Context(), c.identity, e)
}

// body reads the request's body, which has at most this many bytes.
func (c *call) body(most int) ([]byte, error) {
	c.deadline((*http.ResponseController).SetReadDeadline)
	body, err := io.ReadAll(io.LimitReader(c.r.Body, int64(most)+1))
	if err != nil {
		return nil, kv.Refusef("The request ended early.")
	}
	if len(body) > most {
		// How much more comes is known when all of it has come.
		rest, _ := io.CopyN(io.Discard, c.r.Body, queue.MaxBindingDiscard)
		return nil, kv.TooLong(int64(len(body))+rest, int64(most))
	}
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{})
	return body, nil
}

func (c *call) delete(key string) error {
	if err := kv.CheckKey(key); err != nil {
		return err
	}
	return c.namespaces.Delete(c.r.Context(), c.identity, key)
}

// fail answers with a status and a reason, which the client library shows as they are. What is no fault of the caller's goes
// to the log, and the caller learns only that it happened.
func (c *call) fail(err error) {
	status, text := http.StatusInternalServerError, "internal error; the log of the server has the details"
	refusal, refused := errors.AsType[*kv.Error](err)
	switch {
	case refused:
		status, text = refusal.Status, refusal.Text
	case errors.Is(err, kv.ErrFull):
		status, text = http.StatusInsufficientStorage, "the disk of the server is full"
	case c.r.Context().Err() != nil:
		return
	default:
		c.log.ErrorContext(c.r.Context(), "KV call failed", "binding", c.r.Header.Get(Header), "error", fault.Detail(err))
	}
	// workerd sends the whole body before it looks at the answer.
	c.deadline((*http.ResponseController).SetReadDeadline)
	_, _ = io.CopyN(io.Discard, c.r.Body, queue.MaxBindingDiscard)
	reply(c.w, status, text)
}

// reply answers with a reason phrase, which net/http writes for no status but those that it knows: so the connection is
// taken over, and closed after the answer.
func reply(w http.ResponseWriter, status int, text string) {
	conn, buffer, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, text, status)
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(queue.SendTimeout)) // what fails is the write
	fmt.Fprintf(buffer, "HTTP/1.1 %d %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status, oneLine(text))
	_ = buffer.Flush()
}

// oneLine keeps a text within what a reason phrase may hold.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
}
