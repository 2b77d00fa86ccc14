package queues

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/broker/look"
	"github.com/runlot/runlot/internal/engine/broker/operate"
	"github.com/runlot/runlot/internal/engine/broker/undo"
	"github.com/runlot/runlot/internal/server/api/endpoint"
	"github.com/runlot/runlot/internal/server/api/lines"
	"github.com/runlot/runlot/internal/server/api/reach"
	"github.com/runlot/runlot/internal/server/api/wire"
)

const tagMessages = "Messages"

func (c *calls) registerMessages() {
	endpoint.Call(c.d, access.Read, huma.Operation{
		OperationID: "list-messages", Method: http.MethodGet, Path: queuesPath + "/messages", Summary: "Look at the messages of a queue",
		Description: "Looks and takes nothing: deliveries go on. A body is a JSON value, a text, or base64, as its encoding says. " +
			"With a filter the page has what matches it, in order of acceptance; it may be empty and not the last: next says. " +
			"The state settled is for messages that left the queue, the last ones first, as far as the records of batches tell: without their bodies, " +
			"and without those that were pulled, purged, deleted or moved by hand.",
		Tags: []string{tagMessages}, Metadata: map[string]any{endpoint.AnyApp: true},
	}, func(ctx context.Context, in *struct {
		reach.Path

		State  string `query:"state" enum:"visible,delayed,in_flight,settled" doc:"Only those of this state."`
		Filter string `query:"filter" maxLength:"2000" doc:"Only those that match: state:delayed age>5m attempts>=2 size>1k source:jobs reason:text body.user.id:42 \"text\" -term."`
		Cursor string `query:"cursor" doc:"The field next of the page before."`
		Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`

		Within  int `query:"within" minimum:"0" maximum:"60000" doc:"With a filter: end the page after about so many milliseconds; 0 takes the time that it takes."`
		Preview int `query:"preview" minimum:"0" maximum:"131072" doc:"At most so many bytes of each body, 0 for all. One that is cut is a text or base64, and shorter than its size."`
	},
	) (*endpoint.Body[client.Messages], error) {
		db, err := c.r.Open(ctx, &in.Path)
		if err != nil {
			return nil, err
		}
		if in.State == wire.StateSettled {
			return c.settled(ctx, &in.Path, in.Filter, in.Cursor, in.Limit)
		}
		if in.Filter != "" {
			return search(ctx, db.Broker, in.Queue, in.Filter, in.State, look.SearchOptions{Cursor: in.Cursor, Rows: in.Limit, Preview: in.Preview, Within: time.Duration(in.Within) * time.Millisecond})
		}
		page, err := db.Broker.Peek(ctx, in.Queue, operate.PeekOptions{State: operate.State(in.State), Cursor: in.Cursor, Rows: in.Limit, Preview: in.Preview})
		if err != nil {
			return nil, err
		}
		out := client.Messages{Items: make([]client.Message, len(page.Messages)), Next: page.Next}
		for i := range page.Messages {
			out.Items[i] = wire.Message(&page.Messages[i])
		}
		return endpoint.Answer(out), nil
	})
	endpoint.Call(c.d, access.Read, huma.Operation{
		OperationID: "get-message", Method: http.MethodGet, Path: queuesPath + "/messages/{id}", Summary: "Look at one message",
		Description: "Also at one that left the queue lately, as far as the records of batches tell: its state is settled, and its body is not kept.",
		Tags:        []string{tagMessages}, Metadata: map[string]any{endpoint.AnyApp: true},
	}, func(ctx context.Context, in *struct {
		reach.Path

		ID string `path:"id"`
	},
	) (*endpoint.Body[client.Message], error) {
		db, err := c.r.Open(ctx, &in.Path)
		if err != nil {
			return nil, err
		}
		ids, err := wire.IDs([]string{in.ID})
		if err != nil {
			return nil, err
		}
		m, err := db.Broker.Message(ctx, in.Queue, ids[0])
		if err != nil {
			return settledOne(ctx, &db, in.Queue, ids[0], err)
		}
		return endpoint.Answer(wire.Message(&m)), nil
	})
	endpoint.Call(c.d, access.Deploy, huma.Operation{
		OperationID: "send-messages", Method: http.MethodPost, Path: queuesPath + "/messages", Summary: "Send messages",
		Description: "Stores 1 to 100 messages, all or none, and answers after the commit. The limits are those of a producer; where apps of both " +
			"dialects use the database, the stricter ones.",
		Tags: []string{tagMessages}, Metadata: map[string]any{endpoint.AnyApp: true}, DefaultStatus: http.StatusCreated,
	}, c.send)
	choose := func(id, method, path, summary, event string, verb func(ctx context.Context, b *broker.Broker, queueName string, ids []queue.ID, action string) (operate.Chosen, error)) {
		endpoint.Call(c.d, access.Deploy, huma.Operation{
			OperationID: id, Method: method, Path: queuesPath + path, Summary: summary, Tags: []string{tagMessages},
			Description: "Messages that are being delivered are left alone. It can be undone for an hour, by the name that the answer has.", Metadata: map[string]any{endpoint.AnyApp: true}, DefaultStatus: http.StatusOK,
		}, func(ctx context.Context, in *struct {
			reach.Path

			Body client.MessageIDs
		},
		) (*endpoint.Body[client.Chosen], error) {
			db, err := c.r.Open(ctx, &in.Path)
			if err != nil {
				return nil, err
			}
			ids, err := wire.IDs(in.Body.IDs)
			if err != nil {
				return nil, err
			}
			action := undo.NewAction()
			done, err := verb(ctx, db.Broker, in.Queue, ids, action)
			if err != nil {
				return nil, err
			}
			detail := map[string]string{detailMessages: strconv.Itoa(done.Done)}
			if done.Done == 0 {
				action = ""
			} else {
				detail[detailUndo] = action
			}
			c.r.Changed(ctx, &in.Path, event, detail)
			return endpoint.Answer(client.Chosen{
				Done: done.Done, InFlight: wire.Texts(done.InFlight), Unchanged: wire.Texts(done.Unchanged), Missing: wire.Texts(done.Missing), Undo: action,
			}), nil
		})
	}
	choose("delete-messages", http.MethodDelete, "/messages", "Delete messages", eventDeleted,
		func(ctx context.Context, b *broker.Broker, queueName string, ids []queue.ID, action string) (operate.Chosen, error) {
			return b.Delete(ctx, queueName, ids, action)
		})
	choose("retry-messages", http.MethodPost, "/messages/retry", "Make delayed messages visible now", eventRetried,
		func(ctx context.Context, b *broker.Broker, queueName string, ids []queue.ID, action string) (operate.Chosen, error) {
			return b.RetryNow(ctx, queueName, ids, action)
		})
	c.registerSearch()
	c.registerLong()
}

func (c *calls) send(ctx context.Context, in *struct {
	reach.Path

	Body client.Send
},
) (*endpoint.Body[client.Sent], error) {
	db, err := c.r.Open(ctx, &in.Path)
	if err != nil {
		return nil, err
	}
	drafts, err := wire.Drafts(in.Body.Messages, c.limits(in.Database))
	if err != nil {
		return nil, err
	}
	m, err := db.Broker.Send(ctx, in.Queue, drafts)
	if err != nil {
		return nil, err
	}
	return endpoint.Answer(client.Sent{Messages: len(drafts), Unsettled: m.Count, Bytes: m.Bytes}), nil
}

// limits are those of the producers of a database: where apps of both dialects use it, the stricter ones.
func (c *calls) limits(database string) queue.Limits {
	dialect := queue.Runlot
	for _, m := range c.r.Queues.Manifests() {
		if m.Database == database && m.Dialect == queue.Wrangler {
			dialect = queue.Wrangler
		}
	}
	return queue.LimitsOf(dialect)
}

// registerLong registers what tells of its progress while it goes on.
func (c *calls) registerLong() {
	const shape = "Answers in lines of JSON: {\"progress\": …} while it goes on, and at the end {\"done\": …} or {\"error\": …}. "
	endpoint.Call(c.d, access.Deploy, huma.Operation{
		OperationID: "purge-queue", Method: http.MethodPost, Path: queuesPath + "/purge", Summary: "Delete all that a queue holds",
		Description: shape + "From the first line on the purge is made, and goes on without the caller.",
		Tags:        []string{tagMessages}, Metadata: map[string]any{endpoint.AnyApp: true},
	}, func(ctx context.Context, in *reach.Path) (*huma.StreamResponse, error) {
		db, err := c.r.OpenQueue(ctx, in)
		if err != nil {
			return nil, err
		}
		return c.stream(in, eventPurged, func(ctx context.Context, progress func(client.Progress)) (client.Progress, error) {
			done, err := db.Broker.Purge(ctx, in.Queue, func(p operate.Purged) { progress(purged(p)) })
			return purged(done), err
		}), nil
	})
	endpoint.Call(c.d, access.Deploy, huma.Operation{
		OperationID: "redrive-queue", Method: http.MethodPost, Path: queuesPath + "/redrive", Summary: "Move dead letters back",
		Description: shape + "It stops between two steps when the caller goes away: what was moved stays moved, and the rest stays. " +
			"With an edit it moves that one message with another body, as a new message, which cannot be undone.",
		Tags: []string{tagMessages}, Metadata: map[string]any{endpoint.AnyApp: true},
	}, func(ctx context.Context, in *struct {
		reach.Path

		Body client.Redrive
	},
	) (*huma.StreamResponse, error) {
		db, err := c.r.OpenQueue(ctx, &in.Path)
		if err != nil {
			return nil, err
		}
		token := endpoint.Caller(ctx)
		o := operate.RedriveOptions{To: in.Body.To, Rate: in.Body.Rate, Action: undo.NewAction()}
		if token.App != "" {
			o.May = func(queueName string) bool { return c.r.Opens(token, in.Database, queueName) }
		}
		if o.IDs, err = wire.IDs(in.Body.IDs); err != nil {
			return nil, err
		}
		if in.Body.Edit != nil {
			return c.redriveEdited(&in.Path, db.Broker, &o, in.Body.Edit)
		}
		return c.stream(&in.Path, eventRedriven, func(ctx context.Context, progress func(client.Progress)) (client.Progress, error) {
			o.Progress = func(r operate.Redriven) { progress(redriven(r)) }
			done, err := db.Broker.Redrive(ctx, in.Queue, o)
			p := redriven(done)
			if p.Messages > 0 {
				p.Undo = o.Action
			}
			return p, err
		}), nil
	})
}

func purged(p operate.Purged) client.Progress { return client.Progress{Messages: p.Messages + p.Inbox} }

func redriven(r operate.Redriven) client.Progress {
	return client.Progress{Messages: r.Moved, InFlight: r.InFlight, Missing: wire.Texts(r.Missing)}
}

// stream answers with the progress of work. Work that did anything leaves an event, also when it was cut short.
func (c *calls) stream(p *reach.Path, event string, work lines.Work) *huma.StreamResponse {
	return lines.Stream(work, func(ctx context.Context, done client.Progress, err error) *client.Error {
		if err == nil || done.Messages > 0 {
			detail := map[string]string{detailMessages: strconv.FormatInt(done.Messages, 10)}
			switch {
			case err != nil && ctx.Err() != nil:
				detail["reason"] = "stopped by the caller"
			case err != nil:
				detail["reason"] = fault.From(err).Error()
			}
			if done.ID != "" {
				detail["edited"] = done.ID
			}
			if done.Undo != "" {
				detail[detailUndo] = done.Undo
			}
			c.r.Changed(ctx, p, event, detail)
		}
		if err == nil {
			return nil
		}
		if ctx.Err() == nil && fault.KindOf(err) == fault.Internal {
			c.r.Log.Error("a call failed", "event", event, "queue", p.Queue, "error", fault.Detail(err))
		}
		return endpoint.Failure(err)
	})
}
