// Package replay answers a call that is repeated, because its answer was lost, as it was answered before.
package replay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"net/http"
	"slices"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Replays are the answers to calls with an idempotency key, the newest queue.KeptReplies of them, so that a call that is
// repeated because its answer was lost has its effect once. They are in memory: a restart of the server forgets them.
type Replays struct {
	mu    sync.Mutex
	byKey map[string]*replayed // guarded by mu
	order []*replayed          // the oldest first; guarded by mu
}

type replayed struct {
	key    string
	digest [sha256.Size]byte
	// done is closed when the answer is there.
	done   chan struct{}
	status int
	answer []byte
}

// New returns no answers yet.
func New() *Replays { return &Replays{byKey: map[string]*replayed{}} }

// begin finds the call with this key, or makes it the caller's to answer.
func (r *Replays) begin(key string, digest [sha256.Size]byte) (call *replayed, mine bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if call := r.byKey[key]; call != nil {
		return call, false
	}
	call = &replayed{key: key, digest: digest, done: make(chan struct{})}
	r.byKey[key] = call
	r.order = append(r.order, call)
	if len(r.order) > queue.KeptReplies {
		r.remove(r.order[0])
	}
	return call, true
}

// remove forgets a call. The caller holds mu.
func (r *Replays) remove(call *replayed) {
	if r.byKey[call.key] == call {
		delete(r.byKey, call.key)
		r.order = slices.DeleteFunc(r.order, func(c *replayed) bool { return c == call })
	}
}

// end gives the answer. One that may be different next time is not kept.
func (r *Replays) end(call *replayed, status int, answer []byte) {
	call.status, call.answer = status, answer
	close(call.done)
	if status < http.StatusInternalServerError && len(answer) <= queue.MaxReply {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(call)
}

// Middleware answers a POST that was answered before as it was then. Keys belong to the owner of a call; refuse answers
// what is no key.
func (r *Replays) Middleware(owner func(context.Context) string, refuse func(huma.Context, error)) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) { r.answer(ctx, next, owner, refuse) }
}

func (r *Replays) answer(ctx huma.Context, next func(huma.Context), owner func(context.Context) string, refuse func(huma.Context, error)) {
	key := ctx.Header("Idempotency-Key")
	if key == "" || ctx.Method() != http.MethodPost {
		next(ctx)
		return
	}
	request, w := humago.Unwrap(ctx)
	const longest = 255
	if len(key) > longest {
		refuse(ctx, fault.New(fault.Invalid, "idempotency_key", "an Idempotency-Key has at most %d characters", longest))
		return
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, request.Body, ctx.Operation().MaxBodyBytes))
	if err != nil {
		refuse(ctx, fault.New(fault.Limit, "body_size", "the body cannot be read, or has more than %d bytes", ctx.Operation().MaxBodyBytes).WithCause(err))
		return
	}
	request.Body = io.NopCloser(bytes.NewReader(text))
	digest := sha256.Sum256(append([]byte(request.URL.String()+"\n"), text...))
	call, mine := r.begin(owner(ctx.Context())+" "+key, digest)
	if !mine {
		if call.digest != digest {
			refuse(ctx, fault.New(fault.Conflict, "idempotency_key", "this Idempotency-Key belongs to another call").WithHint("use a new one for each call"))
			return
		}
		select {
		case <-call.done:
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Idempotency-Replayed", "true")
			w.WriteHeader(call.status)
			_, _ = w.Write(call.answer)
		case <-request.Context().Done():
		}
		return
	}
	recorder := &recorder{ResponseWriter: w, status: http.StatusInternalServerError}
	defer func() { r.end(call, recorder.status, recorder.text.Bytes()) }()
	next(humago.NewContext(ctx.Operation(), request.WithContext(ctx.Context()), recorder))
}

// recorder keeps what is answered. A handler that does not come to an answer is a failure.
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
	w.text.Write(p)
	return w.ResponseWriter.Write(p)
}

// Unwrap gives http.ResponseController what it can flush.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
