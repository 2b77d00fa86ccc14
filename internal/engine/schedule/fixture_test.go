package schedule_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runlot/runlot/internal/core/cron"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/schedule"
)

// world is a database and the nodes on it, in a synctest bubble, whose clock starts at midnight of 1 January 2000, UTC.
type world struct {
	*testing.T
	*memory

	mu      sync.Mutex
	handler func(ctx context.Context, call *call) (*schedule.Result, error)
	calls   []*call
	active  int
	claims  []schedule.Claim
	jump    time.Duration // of the database's clock
}

// call is one call of a handler.
type call struct {
	node, cron string
	at, began  time.Time
	// number counts the calls of the same occurrence, from 1.
	number int
}

func (c *call) String() string {
	return fmt.Sprintf("%s %s %s +%s", c.node, c.cron, c.at.Format("02 15:04"), c.began.Sub(c.at).Truncate(time.Second))
}

// bubble runs a test in a bubble and stops every node at its end.
func bubble(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, memory: newMemory(), handler: func(context.Context, *call) (*schedule.Result, error) { return ok, nil }}
		w.now = func() time.Time { return time.Now().Add(w.jumped()) }
		test(w)
	})
}

// handle makes handler what the calls from now on do.
func (w *world) handle(handler func(ctx context.Context, call *call) (*schedule.Result, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handler = handler
}

var ok = &schedule.Result{Outcome: queue.OK}

func (w *world) jumped() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.jump
}

// node is one process with its handle on the database.
type node struct {
	*schedule.Scheduler
	*world
	name string

	mu     sync.Mutex
	away   bool // the database does not answer this node
	jump   time.Duration
	onLook func() // called in the middle of a look
	killed chan struct{}
	// process is replaced when the worker process is.
	process *process
	records []schedule.Record
}

// process is a worker process.
type process struct {
	*node
	died chan struct{}
	// reason is the error of the calls that its end breaks.
	reason error
}

func (w *world) start(name string, crons ...string) *node {
	w.Helper()
	n := &node{world: w, name: name, killed: make(chan struct{})}
	n.Scheduler = schedule.New(schedule.Options{App: "app", Node: name, Recorder: n, Now: n.clock, Log: slog.New(slog.DiscardHandler)})
	n.run(crons...)
	w.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		n.Stop(ctx)
	})
	return n
}

// run starts a process for these crons.
func (n *node) run(crons ...string) {
	n.Helper()
	p := &process{node: n, died: make(chan struct{})}
	n.mu.Lock()
	n.process = p
	n.mu.Unlock()
	target := schedule.Target{Runtime: p, Version: "v", Store: n.store()}
	for _, text := range crons {
		s, err := cron.Parse(text)
		if err != nil {
			n.Fatal(err)
		}
		target.Crons = append(target.Crons, s)
	}
	n.Set(target)
}

// die ends a process under its calls.
func (p *process) die(reason error) {
	p.reason = reason
	close(p.died)
}

func (n *node) clock() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Now().Add(n.jump)
}

func (n *node) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

func (n *node) Run(r *schedule.Record) { n.set(func() { n.records = append(n.records, *r) }) }

// kill ends a node as kill -9 does: its handlers end, and nothing of it reaches the database any more.
func (n *node) kill() {
	n.set(func() { n.away = true })
	close(n.killed)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	go n.Stop(ctx)
	synctest.Wait()
}

// Scheduled implements schedule.Runtime.
func (p *process) Scheduled(ctx context.Context, cronText string, at time.Time) (*schedule.Result, error) {
	w := p.world
	select {
	case <-p.died:
		return nil, schedule.ErrGone
	default:
	}
	c := &call{node: p.name, cron: cronText, at: at, began: time.Now(), number: 1}
	w.mu.Lock()
	for _, other := range w.calls {
		if other.cron == cronText && other.at.Equal(at) {
			c.number++
		}
	}
	w.calls = append(w.calls, c)
	if w.active++; w.active > 1 {
		w.Errorf("%s runs while another run of the app does", c)
	}
	handler := w.handler
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.active--
		w.mu.Unlock()
	}()
	type answer struct {
		result *schedule.Result
		err    error
	}
	answers := make(chan answer, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		result, err := handler(ctx, c)
		answers <- answer{result, err}
	}()
	select {
	case a := <-answers:
		return a.result, a.err
	case <-p.died:
		return nil, p.reason
	case <-p.killed:
		return nil, schedule.ErrLost
	}
}

// takes is a handler that takes a time and then ends like result says.
func takes(d time.Duration, result *schedule.Result) func(context.Context, *call) (*schedule.Result, error) {
	return func(ctx context.Context, _ *call) (*schedule.Result, error) {
		select {
		case <-time.After(d):
			return result, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// called returns the calls so far.
func (w *world) called() []*call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls)
}

// claimed returns the claims that were granted so far.
func (w *world) claimed() []schedule.Claim {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.claims)
}

// declared returns how many crons are remembered.
func (w *world) declared() int {
	w.memory.mu.Lock()
	defer w.memory.mu.Unlock()
	return len(w.app("app").crons)
}

// recorded returns what the node recorded so far.
func (n *node) recorded() []schedule.Record {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.records)
}

// course is what the handlers were called for.
func (w *world) course() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]string, len(w.calls))
	for i, c := range w.calls {
		list[i] = c.String()
	}
	return list
}

func (w *world) wantCourse(want ...string) {
	w.Helper()
	if got := w.course(); !slices.Equal(got, want) {
		w.Errorf("course:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// outcomes are the records that are kept: outcome, attempt, and what is missed.
func (w *world) outcomes(cronText string) []string {
	kept := w.runs("app", cronText)
	list := make([]string, 0, len(kept))
	for i := range kept {
		r := &kept[i]
		text := fmt.Sprintf("%s %s %d", r.At.Format("02 15:04"), r.Outcome, r.Attempt)
		if r.Missed > 0 {
			text += fmt.Sprintf(" missed %d", r.Missed)
		}
		if !r.Retry.IsZero() {
			text += " again"
		}
		list = append(list, text)
	}
	return list
}

func (w *world) wantOutcomes(cronText string, want ...string) {
	w.Helper()
	if got := w.outcomes(cronText); !slices.Equal(got, want) {
		w.Errorf("outcomes:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// handle is a node's way to the database.
type handle struct{ *node }

func (n *node) store() schedule.Store { return handle{n} }

func (h handle) ask(ctx context.Context) error {
	h.mu.Lock()
	away := h.away
	h.mu.Unlock()
	if away || ctx.Err() != nil {
		return fault.New(fault.Unavailable, "away", "the database does not answer")
	}
	return nil
}

func (h handle) Declare(ctx context.Context, app string, crons []string) error {
	if err := h.ask(ctx); err != nil {
		return err
	}
	return h.memory.Declare(ctx, app, crons)
}

func (h handle) Forget(ctx context.Context, app string, crons []string) error {
	if err := h.ask(ctx); err != nil {
		return err
	}
	return h.memory.Forget(ctx, app, crons)
}

func (h handle) Look(ctx context.Context, app string) (*schedule.View, error) {
	if err := h.ask(ctx); err != nil {
		return nil, err
	}
	view, err := h.memory.Look(ctx, app)
	h.mu.Lock()
	onLook := h.onLook
	h.mu.Unlock()
	if onLook != nil {
		onLook()
	}
	return view, err
}

func (h handle) Claim(ctx context.Context, c *schedule.Claim) (int64, error) {
	if err := h.ask(ctx); err != nil {
		return 0, err
	}
	fence, err := h.memory.Claim(ctx, c)
	if err == nil {
		h.world.mu.Lock()
		h.claims = append(h.claims, *c)
		h.world.mu.Unlock()
	}
	return fence, err
}

func (h handle) Renew(ctx context.Context, app string, fence int64) error {
	if err := h.ask(ctx); err != nil {
		return err
	}
	return h.memory.Renew(ctx, app, fence)
}

func (h handle) Finish(ctx context.Context, f *schedule.Finish) error {
	if err := h.ask(ctx); err != nil {
		return err
	}
	return h.memory.Finish(ctx, f)
}

func (h handle) Keep(ctx context.Context, r *schedule.Record) error {
	if err := h.ask(ctx); err != nil {
		return err
	}
	return h.memory.Keep(ctx, r)
}
