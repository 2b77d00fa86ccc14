package tail

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/engine/tail"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// Options are what the calls stand on; all fields are required.
type Options struct {
	Hub *tail.Hub
	// Versions knows the scripts.
	Versions deploy.Store
	// Access says whether a token is still good while its tail runs.
	Access *access.Keeper
	Log    *slog.Logger
}

// Tails are those that were made and have not ended.
type Tails struct {
	o Options
	// life ends all of them.
	life context.Context //nolint:containedctx // the lifetime of the connections; no caller's context
	stop context.CancelCauseFunc
	// open are the connections.
	open sync.WaitGroup

	mu  sync.Mutex
	all map[string]*one // by id; guarded by mu
}

// one is a tail.
type one struct {
	id, secret, app string
	token           *access.Token
	wants           func(*tail.Invocation) bool
	made, expires   time.Time
	connected       bool
	// end ends its connection with a reason.
	end context.CancelCauseFunc
	// life is its connection's.
	life context.Context //nolint:containedctx // as above
}

// Register adds the calls to a router. Whoever stops the server calls Stop and Wait.
func Register(r *wire.Router, o Options) *Tails {
	t := &Tails{o: o, all: map[string]*one{}}
	t.life, t.stop = context.WithCancelCause(context.Background())
	const tails = wire.Account + "/workers/scripts/{app}/tails"
	r.Handle("POST "+tails, access.Read, t.make)
	r.Handle("GET "+tails, access.Read, t.list)
	r.Handle("DELETE "+tails+"/{tail}", access.Read, t.remove)
	r.HandleSecret("GET /tails/{secret}", queue.MaxAPIBody, t.connect)
	return t
}

// errStopped ends the tails when the server stops.
var errStopped = &ending{closeAway, "celld stops"}

// ending is why a connection ends.
type ending struct {
	code uint16
	text string
}

func (e *ending) Error() string { return e.text }

// Stop ends every tail.
func (t *Tails) Stop() { t.stop(errStopped) }

// Wait ends every tail, and waits until the connections have ended.
func (t *Tails) Wait() {
	t.mu.Lock()
	t.Stop() // nothing connects behind it
	t.mu.Unlock()
	t.open.Wait()
}

// prune forgets the tails that nobody connected to in time, and those that are over. The caller holds mu.
func (t *Tails) prune(now time.Time) {
	for id, one := range t.all {
		if !one.connected && now.Sub(one.made) > queue.TailConnect || now.After(one.expires) {
			delete(t.all, id)
			one.end(&ending{closeNormal, "this tail is over"})
		}
	}
}

func (one *one) wire() map[string]any {
	return map[string]any{"id": one.id, "expires_at": wire.Stamp(one.expires)}
}

func (t *Tails) make(w http.ResponseWriter, c *wire.Call) error {
	app := c.PathValue("app")
	if _, err := t.o.Versions.App(c.Context(), app); err != nil {
		return err
	}
	in, err := wire.Body[struct {
		Filters []json.RawMessage `json:"filters"`
	}](c)
	if err != nil {
		return err
	}
	wants, err := parse(in.Filters)
	if err != nil {
		return err
	}
	now := time.Now()
	made := &one{id: strings.ToLower(rand.Text()), secret: rand.Text(), app: app, token: c.Token, wants: wants, made: now, expires: now.Add(queue.TailTime)}
	made.life, made.end = context.WithCancelCause(t.life)
	if err := t.add(made, now); err != nil {
		made.end(err)
		return err
	}
	out := made.wire()
	out["url"] = wire.URL(c.Request, "ws") + "/tails/" + made.secret
	wire.Answer(w, out)
	return nil
}

func (t *Tails) add(made *one, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.prune(now)
	same := 0
	for _, other := range t.all {
		if other.app == made.app {
			same++
		}
	}
	if same >= queue.MaxTails || len(t.all) >= queue.MaxAllTails {
		return fault.New(fault.Limit, "tails_many", "%d tails follow %s, and %d all scripts; more are not possible", same, made.app, len(t.all)).
			WithHint("end one, at most %d follow one script; those whose client is gone end within a minute", queue.MaxTails)
	}
	t.all[made.id] = made
	return nil
}

func (t *Tails) list(w http.ResponseWriter, c *wire.Call) error {
	t.mu.Lock()
	t.prune(time.Now())
	var list []*one
	for _, one := range t.all {
		if one.app == c.PathValue("app") {
			list = append(list, one)
		}
	}
	t.mu.Unlock()
	slices.SortFunc(list, func(a, b *one) int { return strings.Compare(a.id, b.id) })
	out := make([]map[string]any, len(list))
	for i, one := range list {
		out[i] = one.wire()
	}
	wire.List(w, c, out)
	return nil
}

func (t *Tails) remove(w http.ResponseWriter, c *wire.Call) error {
	t.mu.Lock()
	one := t.all[c.PathValue("tail")]
	if one != nil && one.app == c.PathValue("app") {
		delete(t.all, one.id)
	} else {
		one = nil
	}
	t.mu.Unlock()
	if one == nil {
		return fault.New(fault.NotFound, "tail_unknown", "the script %s has no tail %s", c.PathValue("app"), c.PathValue("tail")).
			WithHint("it ended; those end whose client goes away")
	}
	one.end(&ending{closeNormal, "this tail was ended"})
	wire.Answer(w, nil)
	return nil
}

// take finds the tail of an address for its one connection.
func (t *Tails) take(secret string) (*one, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.prune(time.Now())
	for _, one := range t.all {
		if one.secret == secret && !one.connected && t.life.Err() == nil {
			one.connected = true
			t.open.Add(1)
			return one, nil
		}
	}
	return nil, fault.New(fault.NotFound, "tail_unknown", "there is no tail that waits for this connection").WithHint("make another one")
}

// forget ends what is left of a tail whose connection is over.
func (t *Tails) forget(one *one) {
	one.end(nil)
	t.mu.Lock()
	delete(t.all, one.id)
	t.mu.Unlock()
	t.open.Done()
}
