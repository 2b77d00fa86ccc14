// Package replay answers a call that is repeated, because its answer was lost, as it was answered before.
package replay

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/reply"
)

// Sealer encrypts answers, which may hold secrets; see deploy.Sealer.
type Sealer interface {
	Seal(appName, name, value string) ([]byte, error)
	Open(appName, name string, sealed []byte) (string, error)
}

// Options are what Replays stand on.
type Options struct {
	// Store remembers the answers; nil is in memory.
	Store reply.Store
	// Sealer seals what the store keeps; nil where that stays in memory.
	Sealer Sealer
	// Node names this program among those that share the store; two that run at a time have two names.
	Node string
	// Owner is whose call it is: keys belong to one owner. Refuse answers with an error.
	Owner  func(context.Context) string
	Refuse func(huma.Context, error)
	Log    *slog.Logger
}

// Replays remember the answers to calls with an idempotency key, so that a call that is repeated because its answer was lost
// has its effect once: also after this program has ended. While it is under way, a repetition waits for its answer.
type Replays struct {
	o Options
	// boot names this run of the program.
	boot string

	mu       sync.Mutex
	underWay map[reply.Key]*call // guarded by mu
}

// call is one under way.
type call struct {
	digest [sha256.Size]byte
	// done is closed when the answer is there.
	done   chan struct{}
	status int
	answer []byte
}

// New returns replays.
func New(o Options) *Replays {
	if o.Store == nil {
		o.Store = reply.NewMemory()
	}
	return &Replays{o: o, boot: rand.Text(), underWay: map[reply.Key]*call{}}
}

// begin finds the call with this key that is under way here, or makes it the caller's.
func (r *Replays) begin(key reply.Key, digest [sha256.Size]byte) (c *call, mine bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.underWay[key]; c != nil {
		return c, false
	}
	c = &call{digest: digest, done: make(chan struct{})}
	r.underWay[key] = c
	return c, true
}

// end gives the answer to those that wait for it.
func (r *Replays) end(key reply.Key, c *call, w *recorder) {
	c.status, c.answer = w.status, w.text.Bytes()
	if w.text.Len() > queue.MaxReply {
		c.status, c.answer = 0, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.underWay, key)
	close(c.done)
}

// Middleware answers a POST that was answered before as it was then.
func (r *Replays) Middleware(ctx huma.Context, next func(huma.Context)) {
	text := ctx.Header("Idempotency-Key")
	if text == "" || ctx.Method() != http.MethodPost {
		next(ctx)
		return
	}
	request, w := humago.Unwrap(ctx)
	const longest = 255
	if len(text) > longest {
		r.o.Refuse(ctx, fault.New(fault.Invalid, codeKey, "an Idempotency-Key has at most %d characters", longest))
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, ctx.Operation().MaxBodyBytes))
	if err != nil {
		r.o.Refuse(ctx, fault.New(fault.Limit, "body_size", "the body cannot be read, or has more than %d bytes", ctx.Operation().MaxBodyBytes).WithCause(err))
		return
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	digest := sha256.Sum256(append([]byte(request.URL.String()+"\n"), body...))
	key := reply.Key(sha256.Sum256([]byte(r.o.Owner(ctx.Context()) + " " + text)))
	c, mine := r.begin(key, digest)
	if !mine {
		r.await(ctx, c, digest)
		return
	}
	recorder := &recorder{ResponseWriter: w, status: http.StatusInternalServerError}
	defer r.end(key, c, recorder)
	recorded := humago.NewContext(ctx.Operation(), request.WithContext(ctx.Context()), recorder)
	known, err := r.o.Store.Begin(ctx.Context(), key, &reply.Call{Digest: digest, Node: r.o.Node, Boot: r.boot})
	switch {
	case err != nil:
		r.o.Refuse(recorded, err)
	case known != nil:
		r.again(recorded, key, known, digest)
	default:
		defer r.keep(ctx.Context(), key, recorder)
		next(recorded)
	}
}

const (
	codeKey     = "idempotency_key"
	codeNotKept = "answer_not_kept"
)

// await answers as the call that is under way here does.
func (r *Replays) await(ctx huma.Context, c *call, digest [sha256.Size]byte) {
	request, _ := humago.Unwrap(ctx)
	if c.digest != digest {
		r.o.Refuse(ctx, belongs())
		return
	}
	select {
	case <-request.Context().Done():
		return
	case <-c.done:
	}
	if c.status == 0 {
		r.o.Refuse(ctx, tooLarge())
		return
	}
	repeat(ctx, c.status, c.answer)
}

func repeat(ctx huma.Context, status int, answer []byte) {
	_, w := humago.Unwrap(ctx)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Idempotency-Replayed", "true")
	w.WriteHeader(status)
	_, _ = w.Write(answer)
}

func belongs() error {
	return fault.New(fault.Conflict, codeKey, "this Idempotency-Key belongs to another call").WithHint("use a new one for each call")
}

func tooLarge() error {
	return fault.New(fault.Conflict, codeNotKept, "the call with this Idempotency-Key was carried out, and its answer was too large to be kept").
		WithHint("look at what it did; to do it once more, use a new key")
}

// again answers a call that is known from before.
func (r *Replays) again(ctx huma.Context, key reply.Key, known *reply.Call, digest [sha256.Size]byte) {
	switch {
	case known.Digest != digest:
		r.o.Refuse(ctx, belongs())
	case known.Status == 0 && known.Node != r.o.Node:
		r.o.Refuse(ctx, fault.New(fault.Conflict, "call_under_way", "another celld carries out the call with this Idempotency-Key").
			WithHint("try again in a moment, with the same key"))
	case known.Status == 0:
		r.o.Refuse(ctx, fault.New(fault.Conflict, "call_interrupted", "celld ended before it answered the call with this Idempotency-Key: whether it had its effect is not known").
			WithHint("look at what it did; to do it once more, use a new key"))
	case known.Answer == nil:
		r.o.Refuse(ctx, tooLarge())
	default:
		answer := known.Answer
		if r.o.Sealer != nil {
			text, err := r.o.Sealer.Open("", sealedAs(key), answer)
			if err != nil {
				r.o.Refuse(ctx, fault.New(fault.Conflict, codeNotKept, "the call with this Idempotency-Key was carried out, and the key of the secrets that its answer was kept with is another one").
					WithHint("look at what it did; to do it once more, use a new key").WithCause(err))
				return
			}
			answer = []byte(text)
		}
		repeat(ctx, known.Status, answer)
	}
}

// sealedAs is the name that an answer is sealed under: it is of no use with another key.
func sealedAs(key reply.Key) string { return "reply " + hex.EncodeToString(key[:]) }

// keepTime bounds how long an answer takes to be kept.
const keepTime = 10 * time.Second

// keep keeps the answer. One that may be different next time is not kept.
func (r *Replays) keep(ctx context.Context, key reply.Key, w *recorder) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTime)
	defer cancel()
	err := r.store(ctx, key, w)
	if err != nil {
		r.o.Log.Warn("the answer to a call with an idempotency key was not kept", "error", fault.Detail(err))
	}
}

func (r *Replays) store(ctx context.Context, key reply.Key, w *recorder) error {
	if w.status >= http.StatusInternalServerError {
		return r.o.Store.Drop(ctx, key)
	}
	var answer []byte
	if w.text.Len() <= queue.MaxReply {
		answer = append([]byte{}, w.text.Bytes()...)
		if r.o.Sealer != nil {
			var err error
			if answer, err = r.o.Sealer.Seal("", sealedAs(key), string(answer)); err != nil {
				return err
			}
		}
	}
	return r.o.Store.End(ctx, key, w.status, answer)
}

// recorder keeps what is answered, as far as it may be kept. A handler that does not come to an answer is a failure.
type recorder struct {
	http.ResponseWriter

	status int
	text   bytes.Buffer
}

func (w *recorder) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(p []byte) (int, error) {
	if w.text.Len() <= queue.MaxReply { // one byte more says that it is too large
		w.text.Write(p[:min(len(p), queue.MaxReply+1-w.text.Len())])
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap gives http.ResponseController what it can flush.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
