package supervise_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/engine/supervise"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// process is a process of the technology below: it ends by die or by Drain, which takes as long as its work.
type process struct {
	world *world
	name  string
	work  time.Duration
	done  chan struct{}
	once  sync.Once
	err   error
}

func (p *process) Done() <-chan struct{} { return p.done }

func (p *process) Err() error {
	<-p.done
	return p.err
}

func (p *process) die(err error) {
	p.once.Do(func() {
		p.err = err
		p.world.note(p.name + " ends")
		p.world.mu.Lock()
		p.world.running--
		p.world.mu.Unlock()
		close(p.done)
	})
}

func (p *process) Drain(ctx context.Context) error {
	p.world.note(p.name + " drains")
	timer := time.NewTimer(p.work)
	defer timer.Stop()
	select {
	case <-timer.C:
		p.die(nil)
	case <-p.done:
	case <-ctx.Done():
		p.die(errors.New("killed"))
		return ctx.Err()
	}
	return nil
}

// world starts processes and writes down what happens, with the time since its begin.
type world struct {
	*supervise.Supervisor[string, *process]
	begin time.Time
	// startTime is how long a start takes, work how long a process drains.
	startTime, work time.Duration
	// stubborn makes Start succeed although its context has ended.
	stubborn bool
	// born, when set, is told of each new process.
	born func(*process)

	mu       sync.Mutex
	log      []string
	running  int
	most     int
	live     *process
	serial   map[string]int
	failures map[string]error
}

var errBroken = errors.New("broken")

func newWorld() *world {
	w := &world{begin: time.Now(), serial: map[string]int{}, failures: map[string]error{}, startTime: 50 * time.Millisecond}
	w.Supervisor = supervise.New(supervise.Options[string, *process]{
		App: "app", Log: slog.New(slog.DiscardHandler), Start: w.start,
		Alone: func(version string) bool { return strings.HasPrefix(version, "alone") },
		OnLive: func(p *process, version string) {
			w.note(p.name + " live as " + version)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.live = p
		},
		OnDown: func(reason error) {
			w.note("down: " + reason.Error())
			w.mu.Lock()
			defer w.mu.Unlock()
			w.live = nil
		},
	})
	return w
}

func (w *world) start(ctx context.Context, version string) (*process, error) {
	timer := time.NewTimer(w.startTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		if !w.stubborn {
			return nil, ctx.Err()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.failures[version]; err != nil {
		return nil, err
	}
	w.serial[version]++
	w.running++
	w.most = max(w.most, w.running)
	p := &process{world: w, name: fmt.Sprintf("%s#%d", version, w.serial[version]), work: w.work, done: make(chan struct{})}
	if w.born != nil {
		w.born(p)
	}
	return p, nil
}

func (w *world) fail(version string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures[version] = err
}

func (w *world) note(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, fmt.Sprintf("%s %s", time.Since(w.begin), text))
}

func (w *world) serving() *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.live
}

func (w *world) count() (running, most int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running, w.most
}

func (w *world) check(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if diff := cmp.Diff(want, w.log); diff != "" {
		t.Errorf("events: %s", diff)
	}
	w.log = nil
}

func (w *world) end(t *testing.T) {
	t.Helper()
	w.Stop(t.Context())
	w.Stop(t.Context())
	if running, _ := w.count(); running != 0 {
		t.Errorf("%d processes are left", running)
	}
	if s := w.State(); s.Phase != supervise.Stopped {
		t.Errorf("state %+v after Stop", s)
	}
	if err := w.Deploy(t.Context(), "late"); !errors.Is(err, supervise.ErrStopped) {
		t.Errorf("Deploy after Stop: %v", err)
	}
	if err := w.Resume(t.Context(), "late"); !errors.Is(err, supervise.ErrStopped) {
		t.Errorf("Resume after Stop: %v", err)
	}
}

func run(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		test(t, w)
		w.end(t)
	})
}

func (w *world) deploy(t *testing.T, version string) {
	t.Helper()
	if err := w.Deploy(t.Context(), version); err != nil {
		t.Fatalf("Deploy(%s): %v", version, err)
	}
}
