package notices

import (
	"context"
	"log/slog"
	"time"

	"github.com/runlot/runlot/internal/adapter/postgres/control"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/witness"
	"github.com/runlot/runlot/internal/engine/broker/usage"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/engine/dispatch"
	"github.com/runlot/runlot/internal/engine/notify"
	"github.com/runlot/runlot/internal/engine/schedule"
	"github.com/runlot/runlot/internal/server/api/reach"
)

// EventFailed is the kind of the event that a notice could not be sent.
const EventFailed = "notice.failed"

// author is who such events are of.
const author = "celld"

// Notices tell operators what happens on a node. Without a way to do so they do nothing.
type Notices struct {
	notifier *notify.Notifier // nil when nobody is to be told
	old      time.Duration
	log      *slog.Logger
	// Of Start.
	store  *control.Store
	queues reach.Queues
}

var (
	_ witness.Facts     = (*Notices)(nil)
	_ schedule.Recorder = (*Notices)(nil)
)

// New returns what takes facts. operator is the address that celld listens on for operators.
func New(s *Settings, operator, version string, log *slog.Logger) (*Notices, error) {
	n := &Notices{old: s.Old, log: log}
	rules, err := s.rules()
	if err != nil {
		return nil, err
	}
	ways, err := s.Ways(operator, version)
	if err != nil || len(ways) == 0 {
		return n, err
	}
	channels := make([]notify.Channel, len(ways))
	for i := range ways {
		channels[i] = ways[i].Channel
	}
	n.notifier = notify.New(notify.Options{
		Rules: rules, Channels: channels, Node: host(), Ages: n.ages, Number: n.number, GivenUp: n.givenUp, Log: log,
	})
	return n, nil
}

// Start lets something be done about the facts, until Stop.
func (n *Notices) Start(store *control.Store, queues reach.Queues) {
	if n.notifier != nil {
		n.store, n.queues = store, queues
		n.notifier.Start(store.Outbox())
	}
}

// Stop writes what is known to the outbox, within bounds. Twice is fine.
func (n *Notices) Stop() {
	if n.notifier == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), queue.NotifyStopTime)
	defer cancel()
	n.notifier.Stop(ctx)
}

// Batch implements witness.Facts.
func (n *Notices) Batch(database, deadLetterQueue string, r *dispatch.Record) {
	if n.notifier == nil {
		return
	}
	b := &notify.Batch{
		Database: database, Queue: r.Queue, DeadLetterQueue: deadLetterQueue, App: r.App, Version: r.Version, Start: r.Start, End: r.Start.Add(r.Duration),
		Outcome: r.Outcome, Dead: r.Dead, Reason: r.Reason,
	}
	if r.Error != nil {
		b.Error = &notify.Exception{Name: r.Error.Name, Message: r.Error.Message, Location: r.Error.Location}
	}
	n.notifier.Batch(b)
}

// Operations implements witness.Facts.
func (n *Notices) Operations(database string, at time.Time, a usage.Alert) {
	if n.notifier == nil {
		return
	}
	n.notifier.Operations(&notify.Operations{Database: database, At: at, Percent: a.Percent, Used: a.Used, Cap: a.Cap, Day: a.Day, Reset: a.Resets})
}

// Left implements witness.Facts.
func (n *Notices) Left(database string) {
	if n.notifier != nil {
		n.notifier.Left(database)
	}
}

// Removed implements witness.Facts.
func (n *Notices) Removed(database, queueName string) {
	if n.notifier != nil {
		n.notifier.Removed(database, queueName)
	}
}

// Run implements schedule.Recorder. Who runs a cron by hand sees what becomes of it.
func (n *Notices) Run(r *schedule.Record) {
	if n.notifier == nil || r.Manual {
		return
	}
	run := &notify.Run{
		App: r.App, Cron: r.Cron, Version: r.Version, Occurrence: r.At, Start: r.Start, End: r.Start.Add(r.Duration), Outcome: r.Outcome, Reason: r.Reason,
		Attempt: r.Attempt, Retry: r.Retry,
	}
	if r.Error != nil {
		run.Error = &notify.Exception{Name: r.Error.Name, Message: r.Error.Message, Location: r.Error.Location}
	}
	n.notifier.Run(run)
}

// ages are those of the queues that this node delivers. A queue that only takes dead letters is left out: they stay until
// somebody comes.
func (n *Notices) ages(ctx context.Context) []notify.Age {
	drained, dead := map[string]bool{}, map[string]bool{}
	for _, m := range n.queues.Manifests() {
		for i := range m.Consumers {
			drained[m.Database+"/"+m.Consumers[i].Queue] = true
			dead[m.Database+"/"+m.Consumers[i].DeadLetterQueue] = true
		}
	}
	var list []notify.Age
	for _, name := range n.queues.Databases() {
		d, err := n.queues.Database(ctx, name)
		if err != nil {
			continue // the log has it, and the next look is soon
		}
		for _, queueName := range d.Broker.Queues() {
			key := name + "/" + queueName
			if dead[key] && !drained[key] {
				continue
			}
			m, err := d.Broker.Metrics(ctx, queueName)
			if err != nil || m.Oldest.IsZero() || time.Since(m.Oldest) <= n.old {
				continue // which costs nothing more
			}
			a := notify.Age{Database: name, Queue: queueName, At: time.Now(), Oldest: m.Oldest}
			if o, err := d.Broker.Overview(ctx, queueName); err == nil {
				a.PausedSince = o.PausedAt
			}
			list = append(list, a)
		}
	}
	return list
}

func (n *Notices) number(ctx context.Context, appName, version string) int {
	number, err := n.store.VersionNumber(ctx, appName, version)
	if err != nil {
		n.log.Debug("the number of a version is not known", "app", appName, "version", version, "error", fault.Detail(err))
	}
	return number
}

// givenUp leaves an event behind.
func (n *Notices) givenUp(ctx context.Context, notice *notify.Notice, way, problem string) {
	event := &deploy.Event{
		At: time.Now(), Kind: EventFailed, App: notice.App, Author: author,
		Detail: map[string]string{"name": string(notice.Rule), "about": notice.Subject(), "reason": way + ": " + problem},
	}
	if err := n.store.AddEvent(ctx, event, queue.KeptEvents); err != nil {
		n.log.Warn("an event was not recorded", "event", event.Kind, "error", fault.Detail(err))
	}
}

// Tested is what became of a test on one way.
type Tested struct {
	Way string
	Err error
}

// Test sends a test by every way, without the outbox.
func Test(ctx context.Context, s *Settings, operator, version string) ([]Tested, error) {
	if _, err := s.rules(); err != nil {
		return nil, err
	}
	ways, err := s.Ways(operator, version)
	if err != nil {
		return nil, err
	}
	if len(ways) == 0 {
		return nil, invalid("nobody is to be told: no mail server and no webhook is set up").WithHint("set smtp-url and notify-to, or webhook-url and webhook-secret-file")
	}
	notice := &notify.Notice{Rule: notify.Test, At: time.Now(), Node: host()}
	var list []Tested
	for _, w := range ways {
		for _, way := range w.Ways() {
			// The time makes it a notice of its own for whoever counts them.
			err := w.Send(ctx, &notify.Delivery{ID: 0, Way: way, Notice: notice, Attempt: 1})
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			list = append(list, Tested{way, err})
		}
	}
	return list, nil
}
