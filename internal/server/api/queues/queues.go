package queues

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/broker/operate"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/engine/ledger"
	"github.com/runlot/runlot/internal/server/api/endpoint"
	"github.com/runlot/runlot/internal/server/api/reach"
	"github.com/runlot/runlot/internal/server/api/wire"
)

// calls are the calls about queues, their messages and batches.
type calls struct {
	d *endpoint.Door
	r *reach.Reach
}

// Register has a door answer the calls about queues, messages and batches.
func Register(d *endpoint.Door, r *reach.Reach) {
	c := &calls{d, r}
	c.registerQueues()
	c.registerMessages()
	c.registerBatches()
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
	// detailUndo is the name under which it can be undone.
	detailUndo = "undo"
)

// answerTime is how long a list waits for each database.
const answerTime = 2 * time.Second

func (c *calls) registerQueues() {
	endpoint.Call(c.d, access.Read, huma.Operation{
		OperationID: "list-queues", Method: http.MethodGet, Path: "/v1/queues", Summary: "List the queues", Tags: []string{tagQueues},
		Description: "A number of -1 is not known, as while a database does not answer.", Metadata: map[string]any{endpoint.AnyApp: true},
	}, func(ctx context.Context, in *struct {
		App      string `query:"app" doc:"Only those that this app's version names."`
		Database string `query:"database" doc:"Only those of this database."`
	},
	) (*endpoint.List[client.Queue], error) {
		if only := endpoint.Caller(ctx).App; only != "" {
			if in.App != "" && in.App != only {
				return nil, endpoint.Caller(ctx).Allow(access.Read, in.App)
			}
			in.App = only
		}
		var list []client.Queue
		for _, name := range c.r.Queues.Databases() {
			if in.Database == "" || in.Database == name {
				list = append(list, c.queuesOf(ctx, name, in.App)...)
			}
		}
		return endpoint.ListOf(list), nil
	})
	endpoint.Call(c.d, access.Read, huma.Operation{
		OperationID: "get-queue", Method: http.MethodGet, Path: queuesPath, Summary: "Describe a queue", Tags: []string{tagQueues},
		Metadata: map[string]any{endpoint.AnyApp: true},
	}, func(ctx context.Context, in *reach.Path) (*endpoint.Body[client.Queue], error) {
		db, err := c.r.Open(ctx, in)
		if err != nil {
			return nil, err
		}
		o, err := db.Broker.Overview(ctx, in.Queue)
		if err != nil {
			return nil, err
		}
		q := wire.Queue(in.Database, &o, c.r.Queues.Manifests())
		if q.Consumer != nil && q.Consumer.DeadLetterQueue != "" {
			q.DeadLetters = operate.Unknown
			if dead, err := db.Broker.Overview(ctx, q.Consumer.DeadLetterQueue); err == nil {
				q.DeadLetters = dead.Unsettled
			}
		}
		addLast(ctx, in.Database, db.Records, []client.Queue{q}, func(_ int, b *client.Batch) { q.LastBatch = b })
		return endpoint.Answer(q), nil
	})
	c.registerSettings()
	endpoint.Call(c.d, access.Deploy, huma.Operation{
		OperationID: "delete-queue", Method: http.MethodDelete, Path: queuesPath, Summary: "Delete a queue", Tags: []string{tagQueues},
		Description: "It goes with all that it holds: messages, settings and history. One that a running app names is refused.",
	}, func(ctx context.Context, in *reach.Path) (*endpoint.Body[client.DeletedQueue], error) {
		gone, err := c.r.Remover.RemoveQueue(ctx, in.Database, in.Queue)
		if err != nil {
			return nil, err
		}
		c.r.Changed(ctx, in, deploy.EventQueueDeleted, map[string]string{detailMessages: strconv.FormatInt(gone.Messages, 10)})
		return endpoint.Answer(client.DeletedQueue{Messages: gone.Messages, Bytes: gone.Bytes}), nil
	})
	endpoint.Call(c.d, access.Read, huma.Operation{
		OperationID: "get-usage", Method: http.MethodGet, Path: "/v1/databases/{database}/usage", Summary: "Show the operations of a database",
		Tags: []string{tagQueues}, Metadata: map[string]any{endpoint.AnyApp: true},
		Description: "An operation is each started 64,000 bytes of a message written, delivered or deleted. Days are in UTC.",
	}, func(ctx context.Context, in *struct {
		Database string `path:"database" maxLength:"63"`
	},
	) (*endpoint.Body[client.Usage], error) {
		if only := endpoint.Caller(ctx).App; only != "" && !slices.ContainsFunc(c.r.Queues.Manifests(), func(m *app.Manifest) bool {
			return m.Name == only && m.Database == in.Database
		}) {
			return nil, reach.Forbidden(ctx, "the database "+in.Database)
		}
		db, err := c.r.Queues.Database(ctx, in.Database)
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
		return endpoint.Answer(out), nil
	})
}

// registerSettings registers what changes how a queue is delivered and kept.
func (c *calls) registerSettings() {
	setting := func(id, verb, summary, event string, change func(ctx context.Context, b *broker.Broker, queueName string) error) {
		endpoint.Call(c.d, access.Deploy, huma.Operation{
			OperationID: id, Method: http.MethodPost, Path: queuesPath + "/" + verb, Summary: summary, Tags: []string{tagQueues},
			Metadata: map[string]any{endpoint.AnyApp: true}, DefaultStatus: http.StatusNoContent,
		}, func(ctx context.Context, in *reach.Path) (*struct{}, error) {
			db, err := c.r.Open(ctx, in)
			if err == nil {
				err = change(ctx, db.Broker, in.Queue)
			}
			if err == nil {
				c.r.Changed(ctx, in, event, nil)
			}
			return &struct{}{}, err
		})
	}
	setting("pause-queue", "pause", "Stop the delivery of a queue", eventPaused,
		func(ctx context.Context, b *broker.Broker, queueName string) error { return b.Pause(ctx, queueName) })
	setting("resume-queue", "resume", "Go on with the delivery of a queue", eventResumed,
		func(ctx context.Context, b *broker.Broker, queueName string) error { return b.Resume(ctx, queueName) })
	endpoint.Call(c.d, access.Deploy, huma.Operation{
		OperationID: "set-retention", Method: http.MethodPut, Path: queuesPath + "/retention", Summary: "Set how long messages stay", Tags: []string{tagQueues},
		Description: "It counts for the messages that wait already too, whatever the consumer declares. 0 gives the consumer its say again.",
		Metadata:    map[string]any{endpoint.AnyApp: true}, DefaultStatus: http.StatusNoContent,
	}, func(ctx context.Context, in *struct {
		reach.Path

		Body client.Retention
	},
	) (*struct{}, error) {
		db, err := c.r.Open(ctx, &in.Path)
		if err != nil {
			return nil, err
		}
		// Beyond what a queue may have there is nothing to tell apart.
		seconds := min(in.Body.Seconds, int64(queue.MaxRetention/time.Second)+1)
		if err := db.Broker.OverrideRetention(ctx, in.Queue, time.Duration(seconds)*time.Second); err != nil {
			return nil, err
		}
		c.r.Changed(ctx, &in.Path, eventRetention, map[string]string{"seconds": strconv.FormatInt(in.Body.Seconds, 10)})
		return &struct{}{}, nil
	})
}

// queuesOf describes the queues of a database, of one app or, for "", all. Where the database does not answer, they are
// those that the apps name, without numbers.
func (c *calls) queuesOf(ctx context.Context, database, appName string) []client.Queue {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	apps := c.r.Queues.Manifests()
	db, err := c.r.Queues.Database(ctx, database)
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
