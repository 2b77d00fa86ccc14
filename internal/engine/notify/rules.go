package notify

import (
	"maps"
	"slices"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// Batch is how one batch of a queue ended.
type Batch struct {
	Database, Queue, DeadLetterQueue string
	App, Version                     string
	Start, End                       time.Time
	Outcome                          queue.Outcome
	// Dead is how many of its messages became dead letters.
	Dead   int
	Error  *Exception
	Reason string
}

// Run is how one run of a cron ended.
type Run struct {
	App, Cron, Version string
	// Occurrence is the time that it was for.
	Occurrence, Start, End time.Time
	Outcome                queue.Outcome
	Error                  *Exception
	Reason                 string
	// Attempt counts the runs of the occurrence, from 1, and Retry is when it is tried again; zero when it is not.
	Attempt int
	Retry   time.Time
}

// Operations says that a database has come to a part of its daily cap.
type Operations struct {
	Database   string
	At         time.Time
	Percent    int
	Used, Cap  int64
	Day, Reset time.Time
}

// Age is how old the oldest message of a queue is.
type Age struct {
	Database, Queue string
	At, Oldest      time.Time
	// PausedSince is zero when the queue is not paused.
	PausedSince time.Time
}

// Settings choose the rules.
type Settings struct {
	On []Rule
	// Old is the age of a queue's oldest message beyond which QueueOld is told; 0 is never.
	Old time.Duration
}

// row is a row of failures that nothing which went well has ended.
type row struct {
	since time.Time
	count int
	told  bool
	// database is that of a queue; "" of a cron.
	database string
}

// mark is a rule and a subject.
type mark struct {
	rule    Rule
	subject string
}

// Rules decide what has to be told. They are pure, and remember rows of failures and what was told on which day; what they
// have forgotten over a restart is the outbox's to refuse. Their memory is bounded by the queues and crons that there are.
type Rules struct {
	s    Settings
	rows map[string]*row // by subject
	told map[mark]time.Time
}

// NewRules returns rules that have seen nothing.
func NewRules(s Settings) *Rules {
	return &Rules{s: s, rows: map[string]*row{}, told: map[mark]time.Time{}}
}

// Batch takes the end of a batch.
func (r *Rules) Batch(b *Batch) []*Notice {
	about := Notice{
		Rule: QueueFailed, At: b.End, Database: b.Database, Queue: b.Queue, DeadLetterQueue: b.DeadLetterQueue, App: b.App, Version: b.Version,
		Outcome: b.Outcome, Error: b.Error, Reason: b.Reason,
	}
	var told []*Notice
	if b.Dead > 0 {
		dead := about
		dead.Rule, dead.Count = DeadLetters, b.Dead
		told = r.tell(told, dead)
	}
	switch b.Outcome { //nolint:exhaustive // the others neither count nor end a row
	case queue.OK:
		return r.well(told, about)
	case queue.Failed, queue.Errored:
		return r.failed(told, about, b.Start)
	default:
		return told
	}
}

// failed continues a row of failures of a queue.
func (r *Rules) failed(told []*Notice, about Notice, began time.Time) []*Notice {
	subject := about.Subject()
	f := r.rows[subject]
	if f == nil {
		f = &row{since: began, database: about.Database}
		r.rows[subject] = f
	}
	f.count++
	if f.count < queue.NotifyFailures {
		return told
	}
	about.Since, about.Count = f.since, f.count
	// What another node or an earlier life has told is told too.
	f.told = f.told || r.on(about.Rule)
	return r.tell(told, about)
}

// Left takes note that the queues of a database are delivered here no longer, or were away: what another node made of them
// meanwhile is not known, so that rows of failures begin anew.
func (r *Rules) Left(database string) {
	maps.DeleteFunc(r.rows, func(_ string, f *row) bool { return f.database != "" && f.database == database })
}

// Removed takes note that a queue was deleted: one of its name begins anew.
func (r *Rules) Removed(database, queueName string) {
	subject := (&Notice{Rule: QueueFailed, Database: database, Queue: queueName}).Subject()
	delete(r.rows, subject)
	maps.DeleteFunc(r.told, func(m mark, _ time.Time) bool { return m.subject == subject })
}

// Run takes the end of a run of a cron. The runs of an occurrence may be spread over several nodes, so that their own count is
// what counts.
func (r *Rules) Run(run *Run) []*Notice {
	about := Notice{
		Rule: CronFailed, At: run.End, App: run.App, Cron: run.Cron, Version: run.Version, Outcome: run.Outcome, Error: run.Error, Reason: run.Reason,
		Occurrence: run.Occurrence, Retry: run.Retry, Since: run.Occurrence, Count: run.Attempt,
	}
	switch run.Outcome {
	case queue.OK:
		return r.well(nil, about)
	case queue.Failed, queue.Errored, queue.TimedOut, queue.Lost:
	default:
		return nil
	}
	if run.Attempt < queue.NotifyFailures && !run.Retry.IsZero() {
		return nil
	}
	subject := about.Subject()
	f := r.rows[subject]
	if f == nil {
		f = &row{since: run.Occurrence}
		r.rows[subject] = f
	}
	f.told = f.told || r.on(CronFailed)
	return r.tell(nil, about)
}

// Operations takes an alert.
func (r *Rules) Operations(o *Operations) []*Notice {
	return r.tell(nil, Notice{
		Rule: OperationsCap, At: o.At, Database: o.Database, Percent: o.Percent, Used: o.Used, Cap: o.Cap, Since: o.Day, Resets: o.Reset,
	})
}

// Age takes the age of a queue.
func (r *Rules) Age(a *Age) []*Notice {
	if a.Oldest.IsZero() || a.At.Sub(a.Oldest) <= r.s.Old {
		return nil
	}
	return r.tell(nil, Notice{
		Rule: QueueOld, At: a.At, Database: a.Database, Queue: a.Queue, Oldest: a.Oldest, Since: a.Oldest, PausedSince: a.PausedSince,
		Threshold: int64(r.s.Old / time.Second),
	})
}

// well ends a row of failures.
func (r *Rules) well(told []*Notice, about Notice) []*Notice {
	subject := about.Subject()
	f := r.rows[subject]
	if f == nil {
		return told
	}
	delete(r.rows, subject)
	if !f.told {
		return told
	}
	about.Rule, about.Since, about.Count = Recovered, f.since, f.count
	about.Error, about.Reason = nil, ""
	return r.tell(told, about)
}

func (r *Rules) on(rule Rule) bool {
	if rule == QueueOld {
		return r.s.Old > 0
	}
	return slices.Contains(r.s.On, rule)
}

// tell adds a notice to a list, once a day.
func (r *Rules) tell(list []*Notice, n Notice) []*Notice {
	key := mark{n.Rule, n.Subject()}
	if !r.on(n.Rule) || r.told[key].Equal(n.Day()) {
		return list
	}
	r.told[key] = n.Day()
	n.trim()
	return append(list, &n)
}

// Forget takes back that a notice was told: it got lost.
func (r *Rules) Forget(n *Notice) { delete(r.told, mark{n.Rule, n.Subject()}) }
