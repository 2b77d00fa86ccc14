package schedule_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/schedule"
	"github.com/runlot/runlot/internal/engine/schedule/storetest"
)

// memory is the database of a test: it runs the contract of a store.
type memory struct {
	mu   sync.Mutex
	apps map[string]*memoryApp
	kept []schedule.Record
	now  func() time.Time
	// saved is when the success of an occurrence was saved, by cron and time.
	saved map[string]time.Time
}

type memoryApp struct {
	fence, beat int64
	running     bool
	crons       map[string]*schedule.State
}

func newMemory() *memory {
	return &memory{apps: map[string]*memoryApp{}, now: time.Now, saved: map[string]time.Time{}}
}

func (m *memory) app(name string) *memoryApp {
	if m.apps[name] == nil {
		m.apps[name] = &memoryApp{crons: map[string]*schedule.State{}}
	}
	return m.apps[name]
}

func (m *memory) Declare(_ context.Context, app string, crons []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, cron := range crons {
		if m.app(app).crons[cron] == nil {
			m.app(app).crons[cron] = &schedule.State{Cron: cron, Since: m.now(), Phase: schedule.Done}
		}
	}
	return nil
}

func (m *memory) Forget(_ context.Context, app string, crons []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, cron := range crons {
		delete(m.app(app).crons, cron)
	}
	return nil
}

func (m *memory) Look(_ context.Context, app string) (*schedule.View, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.app(app)
	view := &schedule.View{Now: m.now(), Fence: a.fence, Beat: a.beat, Running: a.running}
	for _, state := range a.crons {
		view.Crons = append(view.Crons, *state)
	}
	return view, nil
}

func (m *memory) Claim(_ context.Context, c *schedule.Claim) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.app(c.App)
	state := a.crons[c.Cron]
	if c.Cron == "" {
		state = &schedule.State{}
	}
	if a.fence != c.Fence || a.beat != c.Beat || state == nil {
		return 0, schedule.ErrTaken
	}
	if c.Lost != nil {
		m.keep(c.Lost)
	}
	a.fence++
	a.running = true
	state.At, state.Attempt, state.Missed, state.Phase, state.Try = c.At, c.Attempt, c.Missed, schedule.Running, time.Time{}
	state.Node, state.Began = c.Node, m.now()
	return a.fence, nil
}

func (m *memory) Renew(_ context.Context, app string, fence int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.app(app)
	if a.fence != fence || !a.running {
		return schedule.ErrTaken
	}
	a.beat++
	return nil
}

func (m *memory) Finish(_ context.Context, f *schedule.Finish) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.app(f.App)
	if a.fence != f.Fence || !a.running {
		return schedule.ErrTaken
	}
	a.fence++
	a.running = false
	if state := a.crons[f.Cron]; state != nil {
		state.Phase, state.Try, state.Attempt = schedule.Done, f.Try, f.Attempt
		if !f.Try.IsZero() {
			state.Phase = schedule.Waiting
		}
	}
	if f.Record != nil {
		m.keep(f.Record)
	}
	return nil
}

func (m *memory) Keep(_ context.Context, record *schedule.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keep(record)
	return nil
}

func (m *memory) keep(record *schedule.Record) {
	r := *record
	if r.Error != nil {
		e := *r.Error
		e.Message = strings.ReplaceAll(e.Message, "\x00", "�")
		r.Error = &e
	}
	r.Reason = strings.ReplaceAll(r.Reason, "\x00", "�")
	m.kept = append(m.kept, r)
	if key := r.Cron + r.At.String(); r.Outcome == queue.OK && m.saved[key].IsZero() {
		m.saved[key] = time.Now()
	}
}

func (m *memory) runs(app, cron string) []schedule.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []schedule.Record
	for _, r := range m.kept {
		if r.App == app && r.Cron == cron {
			list = append(list, r)
		}
	}
	return list
}

func TestMemoryContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Open {
		m := newMemory()
		return func(*testing.T) (schedule.Store, func(app, cron string) []schedule.Record) { return m, m.runs }
	})
}
