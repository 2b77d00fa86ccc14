package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/broker/operate"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/engine/ledger"
	"github.com/runlot/runlot/internal/server/api/wire"
)

// Queues is what the API asks of the queues.
type Queues interface {
	// Databases are the names of the databases in use, in order.
	Databases() []string
	// Database is what serves a database now. Faults: NotFound (queue.CodeQueueNotFound), Unavailable.
	Database(ctx context.Context, name string) (Database, error)
	// Manifests are those of the versions that run, by name of the app.
	Manifests() []*app.Manifest
}

// Database is the queues of a database and the records of their batches.
type Database struct {
	Broker  *broker.Broker
	Records *ledger.Ledger
}

// QueuePath is the input of a call about one queue.
type QueuePath struct {
	Database string `path:"database" maxLength:"63"`
	Queue    string `path:"queue" maxLength:"63"`
}

const (
	tagQueues  = "Queues"
	queuesPath = "/v1/databases/{database}/queues/{queue}"
)

// The kinds of event that the calls about queues leave. Sends and looks leave none.
const (
	eventPaused    = deploy.EventQueuePaused
	eventResumed   = deploy.EventQueueResumed
	eventRetention = deploy.EventRetentionSet
	eventPurged    = deploy.EventQueuePurged
	eventRedriven  = deploy.EventQueueRedriven
	eventDeleted   = deploy.EventMessagesDeleted
	eventRetried   = deploy.EventMessagesRetried

	// detailMessages is how many messages an event is about.
	detailMessages = "messages"
)

// answerTime is how long a list waits for each database.
const answerTime = 2 * time.Second

func (a *API) registerQueues() {
	call(a, access.Read, huma.Operation{
		OperationID: "list-queues", Method: http.MethodGet, Path: "/v1/queues", Summary: "List the queues", Tags: []string{tagQueues},
		Description: "A number of -1 is not known, as while a database does not answer.", Metadata: map[string]any{anyApp: true},
	}, func(ctx context.Context, in *struct {
		App      string `query:"app" doc:"Only those that this app's version names."`
		Database string `query:"database" doc:"Only those of this database."`
	},
	) (*listBody[client.Queue], error) {
		if only := caller(ctx).App; only != "" {
			if in.App != "" && in.App != only {
				return nil, caller(ctx).Allow(access.Read, in.App)
			}
			in.App = only
		}
		var list []client.Queue
		for _, name := range a.o.Queues.Databases() {
			if in.Database == "" || in.Database == name {
				list = append(list, a.queuesOf(ctx, name, in.App)...)
			}
		}
		return listOf(list), nil
	})
	call(a, access.Read, huma.Operation{
		OperationID: "get-queue", Method: http.MethodGet, Path: queuesPath, Summary: "Describe a queue", Tags: []string{tagQueues},
		Metadata: map[string]any{anyApp: true},
	}, func(ctx context.Context, in *QueuePath) (*body[client.Queue], error) {
		db, err := a.open(ctx, in)
		if err != nil {
			return nil, err
		}
		o, err := db.Broker.Overview(ctx, in.Queue)
		if err != nil {
			return nil, err
		}
		q := wire.Queue(in.Database, &o, a.o.Queues.Manifests())
		if q.Consumer != nil && q.Consumer.DeadLetterQueue != "" {
			q.DeadLetters = operate.Unknown
			if dead, err := db.Broker.Overview(ctx, q.Consumer.DeadLetterQueue); err == nil {
				q.DeadLetters = dead.Unsettled
			}
		}
		addLast(ctx, in.Database, db.Records, []client.Queue{q}, func(_ int, b *client.Batch) { q.LastBatch = b })
		return &body[client.Queue]{q}, nil
	})
	a.registerSettings()
	call(a, access.Read, huma.Operation{
		OperationID: "get-usage", Method: http.MethodGet, Path: "/v1/databases/{database}/usage", Summary: "Show the operations of a database",
		Tags: []string{tagQueues}, Metadata: map[string]any{anyApp: true},
		Description: "An operation is each started 64,000 bytes of a message written, delivered or deleted. Days are in UTC.",
	}, func(ctx context.Context, in *struct {
		Database string `path:"database" maxLength:"63"`
	},
	) (*body[client.Usage], error) {
		if only := caller(ctx).App; only != "" && !slices.ContainsFunc(a.o.Queues.Manifests(), func(m *app.Manifest) bool {
			return m.Name == only && m.Database == in.Database
		}) {
			return nil, forbidden(ctx, "the database "+in.Database)
		}
		db, err := a.o.Queues.Database(ctx, in.Database)
		if err != nil {
			return nil, err
		}
		days, dailyCap := db.Broker.Days()
		out := client.Usage{Database: in.Database, Cap: dailyCap, Days: make([]client.UsageDay, len(days))}
		for i, d := range days {
			out.Days[i] = client.UsageDay{
				Day: d.Begin.UTC().Format(time.DateOnly), Written: d.Written, Delivered: d.Delivered, Deleted: d.Deleted, Total: d.Total(),
			}
		}
		return &body[client.Usage]{out}, nil
	})
}

// registerSettings registers what changes how a queue is delivered and kept.
func (a *API) registerSettings() {
	setting := func(id, verb, summary, event string, change func(ctx context.Context, b *broker.Broker, queueName string) error) {
		call(a, access.Deploy, huma.Operation{
			OperationID: id, Method: http.MethodPost, Path: queuesPath + "/" + verb, Summary: summary, Tags: []string{tagQueues},
			Metadata: map[string]any{anyApp: true}, DefaultStatus: http.StatusNoContent,
		}, func(ctx context.Context, in *QueuePath) (*struct{}, error) {
			db, err := a.open(ctx, in)
			if err == nil {
				err = change(ctx, db.Broker, in.Queue)
			}
			if err == nil {
				a.changed(ctx, in, event, nil)
			}
			return &struct{}{}, err
		})
	}
	setting("pause-queue", "pause", "Stop the delivery of a queue", eventPaused,
		func(ctx context.Context, b *broker.Broker, queueName string) error { return b.Pause(ctx, queueName) })
	setting("resume-queue", "resume", "Go on with the delivery of a queue", eventResumed,
		func(ctx context.Context, b *broker.Broker, queueName string) error { return b.Resume(ctx, queueName) })
	call(a, access.Deploy, huma.Operation{
		OperationID: "set-retention", Method: http.MethodPut, Path: queuesPath + "/retention", Summary: "Set how long messages stay", Tags: []string{tagQueues},
		Description: "It counts for the messages that wait already too, whatever the consumer declares. 0 gives the consumer its say again.",
		Metadata:    map[string]any{anyApp: true}, DefaultStatus: http.StatusNoContent,
	}, func(ctx context.Context, in *struct {
		QueuePath

		Body client.Retention
	},
	) (*struct{}, error) {
		db, err := a.open(ctx, &in.QueuePath)
		if err != nil {
			return nil, err
		}
		// Beyond what a queue may have there is nothing to tell apart.
		seconds := min(in.Body.Seconds, int64(queue.MaxRetention/time.Second)+1)
		if err := db.Broker.OverrideRetention(ctx, in.Queue, time.Duration(seconds)*time.Second); err != nil {
			return nil, err
		}
		a.changed(ctx, &in.QueuePath, eventRetention, map[string]string{"seconds": strconv.FormatInt(in.Body.Seconds, 10)})
		return &struct{}{}, nil
	})
}

// open returns the database of a queue, if the caller's token opens the queue.
func (a *API) open(ctx context.Context, p *QueuePath) (Database, error) {
	if !a.opens(caller(ctx), p.Database, p.Queue) {
		return Database{}, forbidden(ctx, "the queue "+p.Queue+" of database "+p.Database)
	}
	return a.o.Queues.Database(ctx, p.Database)
}

// opens reports whether a token opens a queue.
func (a *API) opens(t *access.Token, database, queueName string) bool {
	return t.Opens(a.o.Queues.Manifests(), database, queueName)
}

func forbidden(ctx context.Context, what string) error {
	t := caller(ctx)
	return fault.New(fault.Invalid, access.CodeForbidden, "the token %q is for the app %s, whose live version does not name %s", t.Name, t.App, what).
		WithHint("use another token, or ask an admin for one")
}

// changed records what was done to a queue. It belongs to the app that the token is for, or else to the one that drains
// the queue or leaves its dead letters there.
func (a *API) changed(ctx context.Context, p *QueuePath, kind string, detail map[string]string) {
	if a.o.Versions == nil {
		return
	}
	e := deploy.QueueEvent(kind, caller(ctx).App, author(ctx), p.Database, p.Queue, detail, a.o.Queues.Manifests())
	if err := a.o.Versions.AddEvent(context.WithoutCancel(ctx), e, queue.KeptEvents); err != nil {
		a.o.Log.Error("an event was not recorded", "kind", kind, "queue", p.Queue, "error", fault.Detail(err))
	}
}

// queuesOf describes the queues of a database, of one app or, for "", all. Where the database does not answer, they are
// those that the apps name, without numbers.
func (a *API) queuesOf(ctx context.Context, database, appName string) []client.Queue {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	apps := a.o.Queues.Manifests()
	db, err := a.o.Queues.Database(ctx, database)
	var names []string
	if err == nil {
		names = db.Broker.Queues()
	} else {
		for _, m := range apps {
			if m.Database == database {
				names = append(names, m.Queues()...)
			}
		}
		slices.Sort(names)
		names = slices.Compact(names)
	}
	list := make([]client.Queue, 0, len(names))
	depth := map[string]int64{}
	for _, name := range names {
		o := operate.Overview{Name: name, Unsettled: operate.Unknown, Bytes: operate.Unknown, Visible: operate.Unknown, Delayed: operate.Unknown, InFlight: operate.Unknown}
		if db.Broker != nil {
			if known, err := db.Broker.Overview(ctx, name); err == nil {
				o = known
			}
		}
		depth[name] = o.Unsettled
		list = append(list, wire.Queue(database, &o, apps))
	}
	for i := range list {
		if c := list[i].Consumer; c != nil && c.DeadLetterQueue != "" {
			n, ok := depth[c.DeadLetterQueue]
			if !ok {
				n = operate.Unknown
			}
			list[i].DeadLetters = n
		}
	}
	if db.Records != nil {
		addLast(ctx, database, db.Records, list, func(i int, b *client.Batch) { list[i].LastBatch = b })
	}
	return slices.DeleteFunc(list, func(q client.Queue) bool {
		return appName != "" && !slices.ContainsFunc(apps, func(m *app.Manifest) bool { return m.Name == appName && m.Names(database, q.Name) })
	})
}

// addLast hands each queue its last batch. Where the records cannot be read, none has one.
func addLast(ctx context.Context, database string, records *ledger.Ledger, queues []client.Queue, add func(i int, b *client.Batch)) {
	last, err := records.Last(ctx)
	if err != nil {
		return
	}
	for i := range last {
		at := slices.IndexFunc(queues, func(q client.Queue) bool { return q.Name == last[i].ID.Queue })
		if at >= 0 {
			b := wire.Batch(database, &last[i])
			add(at, &b)
		}
	}
}
