package subscribe

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is everything around an engine, and outlives it.
type world struct {
	t   *testing.T
	mu  sync.Mutex
	all []Subscription
	seq int64
	// waiting are the events of the store, notes those of the databases, watched what each makes notes of.
	waiting []Event
	notes   map[string][]Death
	watched map[string][]string
	// refuse are the queues that take nothing; crash fails the calls that forget what was done.
	refuse map[Place]bool
	crash  bool
	gone   map[Place]bool
	sent   map[Place][]string
}

func newWorld(t *testing.T) *world {
	return &world{t: t, notes: map[string][]Death{}, watched: map[string][]string{}, refuse: map[Place]bool{}, gone: map[Place]bool{}, sent: map[Place][]string{}}
}

func (w *world) start() *Engine {
	e := New(Options{
		Store: w, Deaths: w, Queues: w, Account: "local", QueueID: func(p Place) string { return "id of " + p.Queue }, Log: slog.New(slog.DiscardHandler),
	})
	e.Start()
	return e
}

func (w *world) Subscriptions(context.Context) ([]Subscription, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all), nil
}

func (w *world) AddSubscription(_ context.Context, s *Subscription, most int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.all) >= most {
		return fault.New(fault.Limit, CodeCount, "too many")
	}
	s.ID = "sub " + s.Name
	w.all = append(w.all, *s)
	return nil
}

func (w *world) ChangeSubscription(_ context.Context, s *Subscription) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.all {
		if w.all[i].ID == s.ID {
			w.all[i] = *s
			return nil
		}
	}
	return Unknown(s.ID)
}

func (w *world) DeleteSubscription(_ context.Context, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.all)
	w.all = slices.DeleteFunc(w.all, func(s Subscription) bool { return s.ID == id })
	w.waiting = slices.DeleteFunc(w.waiting, func(e Event) bool { return e.Subscription == id })
	if len(w.all) == n {
		return Unknown(id)
	}
	return nil
}

func (w *world) RaiseEvents(_ context.Context, list []Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range list {
		w.seq++
		e.Seq = w.seq
		w.waiting = append(w.waiting, e)
	}
	return nil
}

func (w *world) WaitingEvents(_ context.Context, subscription string, limit int) ([]Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(w.waiting), func(e Event) bool { return e.Subscription != subscription })
	return list[:min(limit, len(list))], nil
}

func (w *world) EventsSent(_ context.Context, seqs []int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.crash {
		return errors.New("killed")
	}
	w.waiting = slices.DeleteFunc(w.waiting, func(e Event) bool { return slices.Contains(seqs, e.Seq) })
	return nil
}

func (w *world) ExpireEvents(_ context.Context, before time.Time) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.waiting)
	w.waiting = slices.DeleteFunc(w.waiting, func(e Event) bool { return e.At.Before(before) })
	return int64(n - len(w.waiting)), nil
}

func (w *world) Watch(_ context.Context, database string, queues []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watched[database] = queues
	return nil
}

func (w *world) Deaths(_ context.Context, database string, limit int) ([]Death, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.notes[database][:min(limit, len(w.notes[database]))]), nil
}

func (w *world) Forget(_ context.Context, database string, numbers []int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.crash {
		return errors.New("killed")
	}
	w.notes[database] = slices.DeleteFunc(w.notes[database], func(d Death) bool { return slices.Contains(numbers, d.Number) })
	return nil
}

func (w *world) Databases() []string { return []string{"default"} }

func (w *world) Exists(_ context.Context, p Place) error {
	if p.Queue == "nosuch" {
		return fault.New(fault.NotFound, queue.CodeQueueNotFound, "there is no queue %s", p.Queue)
	}
	return nil
}

func (w *world) Gone(_ context.Context, p Place) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone[p]
}

func (w *world) Send(_ context.Context, p Place, drafts []queue.Draft) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse[p] {
		return errors.New("it takes nothing")
	}
	for _, d := range drafts {
		w.sent[p] = append(w.sent[p], string(d.Body))
	}
	return nil
}

// with changes the world while an engine is at work in it.
func (w *world) with(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// die leaves notes of dead letters of the queue jobs, which is watched.
func (w *world) die(n int) {
	const from = "jobs"
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.watched["default"], from) {
		w.t.Errorf("%s is not watched: %v", from, w.watched)
	}
	for range n {
		w.seq++
		w.notes["default"] = append(w.notes["default"], Death{Number: w.seq, Queue: from, Target: "dead", Message: queue.NewID(1, w.seq), Sent: time.Now(), Died: time.Now(), Attempts: 4, Reason: "why"})
	}
}

// got are how many messages a queue has, and forgets them.
func (w *world) got(p Place) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.sent[p]
	w.sent[p] = nil
	return list
}

func at(queueName string) Place { return Place{"default", queueName} }

func dead(name, from, to string) *Subscription {
	return &Subscription{Name: name, Enabled: true, Source: Source{Type: Letters, Queue: at(from)}, Events: []string{DeadLettered}, Target: at(to)}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestDeadLettersAreTold: to each queue that asks, in bounded messages, again after a crash, and to one that comes back.
func TestDeadLettersAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e := w.start()
		w.must(e.Create(t.Context(), dead("a", "jobs", "told")))
		w.must(e.Create(t.Context(), dead("b", "jobs", "away")))
		w.with(func() { w.refuse[at("away")] = true })
		w.die(queue.EventLetters + 1)
		e.Wake()
		synctest.Wait()
		if got := w.got(at("told")); len(got) != 2 || !strings.HasPrefix(got[0], Mark) {
			t.Errorf("told %d messages: %.200v", len(got), got)
		}
		w.with(func() { w.refuse[at("away")] = false })
		time.Sleep(queue.EventRetryMax)
		synctest.Wait()
		if got := w.got(at("away")); len(got) != 2 {
			t.Errorf("the queue that came back is told %d messages", len(got))
		}
		// Without a word from anybody, as for messages that were pulled.
		w.die(1)
		time.Sleep(queue.DeathLook)
		synctest.Wait()
		if got := w.got(at("told")); len(got) != 1 {
			t.Errorf("%d messages of a pulled message", len(got))
		}
		// Killed between the sending and the note of it.
		w.got(at("away"))
		w.with(func() { w.crash = true })
		w.die(1)
		e.Wake()
		synctest.Wait()
		e.Stop()
		before := w.got(at("told"))
		w.with(func() { w.crash = false })
		e = w.start()
		synctest.Wait()
		if after := w.got(at("told")); len(before) == 0 || len(after) == 0 {
			t.Errorf("before the crash %d messages, after it %d", len(before), len(after))
		}
		if len(w.waiting)+len(w.notes["default"]) > 0 {
			t.Errorf("%d events and %d notes are left", len(w.waiting), len(w.notes["default"]))
		}
		e.Stop()
		e.Stop()
	})
}

// TestWhatIsNotToldAnyMore: what is disabled or deleted, what is too old, and what nobody asks about.
func TestWhatIsNotToldAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.watched["default"] = []string{"left"} // by a process that was killed
		e := w.start()
		synctest.Wait()
		if got := w.watched["default"]; len(got) != 0 {
			t.Errorf("at the start %v is watched", got)
		}
		s := dead("a", "jobs", "told")
		w.must(e.Create(t.Context(), s))
		s.Enabled = false
		w.must(e.Update(t.Context(), s))
		synctest.Wait()
		if got := w.watched["default"]; len(got) != 0 {
			t.Errorf("for nobody %v is watched", got)
		}
		s.Enabled = true
		w.must(e.Update(t.Context(), s))
		w.with(func() { w.refuse[at("told")] = true })
		w.die(1)
		e.Wake()
		time.Sleep(queue.EventAge + queue.EventRetryMax)
		synctest.Wait()
		if len(w.waiting) != 0 {
			t.Errorf("%d events are kept for good", len(w.waiting))
		}
		w.must(e.Delete(t.Context(), s.ID))
		if err := e.Delete(t.Context(), s.ID); fault.From(err).Code != CodeUnknown {
			t.Errorf("deleted twice: %v", err)
		}
		synctest.Wait()
		if got := w.watched["default"]; len(got) != 0 {
			t.Errorf("behind the last one %v is watched", got)
		}
		e.Stop()
	})
}

// TestSubscriptionsGoWithTheirQueues: with the one that is told, and with the one that they are about.
func TestSubscriptionsGoWithTheirQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e := w.start()
		defer e.Stop()
		for _, s := range []*Subscription{dead("a", "jobs", "told"), dead("b", "other", "told"), dead("c", "jobs", "away")} {
			w.must(e.Create(t.Context(), s))
		}
		left := func(want ...string) {
			t.Helper()
			e.Wake()
			synctest.Wait()
			all, err := e.List(t.Context())
			w.must(err)
			got := make([]string, len(all))
			for i := range all {
				got[i] = all[i].Name
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		}
		left("a", "b", "c")
		w.with(func() { w.gone[at("away")] = true })
		left("a", "b")
		w.with(func() { w.gone[at("jobs")] = true })
		left("b")
	})
}

func TestShapes(t *testing.T) {
	e := New(Options{Account: "local", QueueID: func(p Place) string { return "id of " + p.Queue }})
	when := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	payload, err := e.payload("default", []Death{{
		Queue: "jobs", Target: "dead", Message: queue.NewID(1, 2), Sent: when, Died: when.Add(time.Second), Attempts: 4, Reason: strings.Repeat("é", queue.EventReasonBytes),
	}})
	if err != nil {
		t.Fatal(err)
	}
	reason := strings.Repeat("é", queue.EventReasonBytes/2) + "…"
	for _, c := range []struct {
		source Source
		event  Event
		want   string
	}{
		{
			Source{Type: Letters, Queue: at("jobs")},
			Event{Kind: DeadLettered, At: when, Payload: payload},
			`{"type":"cf.queues.queue.message.dead_lettered","source":{"queueId":"id of jobs","queueName":"jobs","type":"queues.queue"},` +
				`"payload":{"database":"default","deadLetterQueue":{"queueId":"id of dead","queueName":"dead"},"messages":[` +
				`{"id":"00000000000000010000000000000002","sentAt":"2026-05-01T12:00:00.000Z","deadLetteredAt":"2026-05-01T12:00:01.000Z","attempts":4,"reason":"` + reason + `"}]},` +
				`"metadata":{"accountId":"local","eventSubscriptionId":"s","eventSchemaVersion":1,"eventTimestamp":"2026-05-01T12:00:00.000Z"}}`,
		},
		{
			Source{Type: Builds, Script: "shop"},
			Event{Kind: VersionDeployed, At: when, Payload: json.RawMessage(`{"versionNumber":2}`)},
			`{"type":"cf.workersBuilds.worker.version.deployed","source":{"type":"workersBuilds.worker","workerName":"shop"},"payload":{"versionNumber":2},` +
				`"metadata":{"accountId":"local","eventSubscriptionId":"s","eventSchemaVersion":1,"eventTimestamp":"2026-05-01T12:00:00.000Z"}}`,
		},
	} {
		d, err := e.draft(&Subscription{ID: "s", Source: c.source}, &c.event)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, string(d.Body)); diff != "" {
			t.Error(diff)
		}
		if strings.HasPrefix(string(d.Body), Mark) != (c.source.Type == Letters) {
			t.Errorf("%s has the mark, or has not", d.Body)
		}
	}
}

// TestEventsFitIntoMessages: the largest one of dead letters is a message in both dialects.
func TestEventsFitIntoMessages(t *testing.T) {
	e := New(Options{QueueID: func(Place) string { return strings.Repeat("0", 32) }})
	deaths := make([]Death, queue.EventLetters)
	worst := strings.Repeat(`"`, queue.EventReasonBytes/2) + strings.Repeat("<\x01\\", queue.EventReasonBytes)
	for i := range deaths {
		deaths[i] = Death{Queue: "q", Target: strings.Repeat("t", queue.MaxQueueName), Attempts: 101, Reason: worst}
	}
	payload, err := e.payload(strings.Repeat("d", queue.MaxQueueName), deaths)
	if err != nil {
		t.Fatal(err)
	}
	d, err := e.draft(&Subscription{Source: Source{Type: Letters}}, &Event{Kind: DeadLettered, Payload: payload})
	if most := queue.LimitsOf(queue.Wrangler).MessageBytes; err != nil || len(d.Body) > most {
		t.Errorf("%d bytes, %v", len(d.Body), err)
	}
}

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e := w.start()
		defer e.Stop()
		script := func(kind, script string, events ...string) *Subscription {
			return &Subscription{Source: Source{Type: kind, Script: script}, Events: events, Target: at("told")}
		}
		own := dead("own", "jobs", "jobs")
		nowhere := dead("nowhere", "jobs", "nosuch")
		from := dead("from", "nosuch", "told")
		long := script(Scripts, "", VersionDeployed)
		long.Name = strings.Repeat("x", maxName+1)
		both := script(Scripts, "shop", VersionDeployed)
		both.Source.Queue = at("jobs")
		for name, c := range map[string]struct {
			s          *Subscription
			code, says string
		}{
			"a source of Cloudflare's": {script("r2", "", "bucket.created"), CodeInvalid, "queues.queue, workers.script, workersBuilds.worker"},
			"an event of another":      {script(Builds, "shop", "build.succeeded", VersionDeployed), CodeEvents, "Unrecognized event types: build.succeeded — those of workersBuilds.worker are version.uploaded"},
			"no event":                 {script(Scripts, ""), CodeEvents, "names the events"},
			"no worker":                {script(Builds, "", VersionDeployed), CodeInvalid, "names its worker"},
			"a script and a queue":     {both, CodeInvalid, "no queue"},
			"a circle":                 {own, CodeInvalid, "its own dead letters"},
			"no such queue":            {nowhere, queue.CodeQueueNotFound, "nosuch"},
			"no such source":           {from, queue.CodeQueueNotFound, "nosuch"},
			"a long name":              {long, CodeInvalid, "255"},
		} {
			err := e.Create(t.Context(), c.s)
			if f := fault.From(err); err == nil || f.Code != c.code || !strings.Contains(f.Error(), c.says) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for range queue.Subscriptions {
			w.must(e.Create(t.Context(), script(Scripts, "", VersionDeployed, VersionDeployed)))
		}
		if got := w.all[0]; got.Name != "told workers.script" || len(got.Events) != 1 {
			t.Errorf("%+v", got)
		}
		if err := e.Create(t.Context(), script(Scripts, "", VersionDeployed)); fault.From(err).Code != CodeCount {
			t.Errorf("one more than there may be: %v", err)
		}
		if err := e.Update(t.Context(), &Subscription{ID: "none", Name: "n", Source: Source{Type: Scripts}, Events: ofScripts, Target: at("told")}); fault.From(err).Code != CodeUnknown {
			t.Errorf("one that is not there: %v", err)
		}
	})
}
