package queues

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/filter"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/span"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/broker/look"
	"github.com/runlot/runlot/internal/engine/broker/operate"
	"github.com/runlot/runlot/internal/server/api/endpoint"
	"github.com/runlot/runlot/internal/server/api/reach"
	"github.com/runlot/runlot/internal/server/api/wire"
)

// search answers with a page of what matches a filter.
func search(ctx context.Context, b *broker.Broker, queueName, text, state string, o look.SearchOptions) (*endpoint.Body[client.Messages], error) {
	f, err := filter.Parse(text)
	if err == nil && state != "" {
		err = fault.New(fault.Invalid, filter.CodeInvalid, "state and filter exclude each other").WithHint("add state:%s to the filter", state)
	}
	if err != nil {
		return nil, err
	}
	o.Filter = f
	found, err := b.Search(ctx, queueName, o)
	if err != nil {
		return nil, err
	}
	out := client.Messages{Items: make([]client.Message, len(found.Messages)), Next: found.Next, Looked: found.Looked}
	for i := range found.Messages {
		out.Items[i] = wire.Message(&found.Messages[i])
	}
	return endpoint.Answer(out), nil
}

func (c *calls) registerSearch() {
	endpoint.Call(c.d, access.Read, huma.Operation{
		OperationID: "count-messages", Method: http.MethodGet, Path: queuesPath + "/messages/count", Summary: "Count the messages that match a filter",
		Description: "Counts up to 10,000 among the first 200,000 that the queue holds, in order of acceptance, and says whether that was all.",
		Tags:        []string{tagMessages}, Metadata: map[string]any{endpoint.AnyApp: true},
	}, func(ctx context.Context, in *struct {
		reach.Path

		Filter string `query:"filter" maxLength:"2000"`
		Within int    `query:"within" minimum:"0" maximum:"60000" doc:"End after about so many milliseconds, with what was counted by then; 0 takes the time that it takes."`
	},
	) (*endpoint.Body[client.Count], error) {
		db, err := c.r.Open(ctx, &in.Path)
		if err != nil {
			return nil, err
		}
		f, err := filter.Parse(in.Filter)
		if err != nil {
			return nil, err
		}
		n, err := db.Broker.Matching(ctx, in.Queue, f, time.Duration(in.Within)*time.Millisecond)
		if err != nil {
			return nil, err
		}
		return endpoint.Answer(client.Count(n)), nil
	})
	endpoint.Call(c.d, access.Read, huma.Operation{
		OperationID: "get-message-history", Method: http.MethodGet, Path: queuesPath + "/messages/{id}/history", Summary: "Show what is recorded of a message",
		Description: "The batches in which it was delivered, also of one that the queue does not hold any more, and what is not recorded.",
		Tags:        []string{tagMessages}, Metadata: map[string]any{endpoint.AnyApp: true},
	}, func(ctx context.Context, in *struct {
		reach.Path

		ID string `path:"id"`
	},
	) (*endpoint.Body[client.History], error) {
		db, err := c.r.OpenQueue(ctx, &in.Path)
		if err != nil {
			return nil, err
		}
		ids, err := wire.IDs([]string{in.ID})
		if err != nil {
			return nil, err
		}
		h, err := c.history(ctx, &in.Path, &db, ids[0])
		if err != nil {
			return nil, err
		}
		return endpoint.Answer(h), nil
	})
}

// history gathers the records of a message from its queue, and from those between which dead letters move.
func (c *calls) history(ctx context.Context, p *reach.Path, db *reach.Database, id queue.ID) (client.History, error) {
	h := client.History{Items: []client.Batch{}}
	names := []string{p.Queue}
	for _, m := range c.r.Queues.Manifests() {
		for i := range m.Consumers {
			switch dead := m.Consumers[i].DeadLetterQueue; {
			case m.Database != p.Database || dead == "":
			case m.Consumers[i].Queue == p.Queue:
				names = append(names, dead)
			case dead == p.Queue:
				names = append(names, m.Consumers[i].Queue)
			}
		}
	}
	m, err := db.Broker.Message(ctx, p.Queue, id)
	gone := fault.KindOf(err) == fault.NotFound
	switch {
	case gone:
	case err != nil:
		return h, err
	case m.State == look.InFlight:
		h.Missing = append(h.Missing, "the delivery under way")
	}
	if m.Source != "" {
		names = append(names, m.Source)
	}
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool { return !c.r.Opens(endpoint.Caller(ctx), p.Database, name) })
	records, err := db.Records.Of(ctx, names, id, acceptedAt(id))
	if err != nil {
		return h, err
	}
	for i := range records {
		b := wire.Batch(p.Database, &records[i])
		b.Fates, b.Acks = append(b.Fates, b.Acks...), nil
		h.Items = append(h.Items, b)
		gone = gone && (b.Queue != p.Queue || len(records[i].Settled()) == 0)
	}
	if gone {
		h.Missing = append(h.Missing, "how it left the queue, as when it was pulled, deleted or moved by hand")
	}
	h.Missing = append(h.Missing, "batches of more than "+span.Text(queue.RecordAge)+" ago, or before the last 10,000 of a queue")
	if len(records) == queue.HistoryRecords {
		h.Missing = append(h.Missing, "earlier batches: these are the newest")
	}
	return h, nil
}

// redriveEdited moves one message with another body.
func (c *calls) redriveEdited(p *reach.Path, b *broker.Broker, o *operate.RedriveOptions, edit *client.Edit) (*huma.StreamResponse, error) {
	if len(o.IDs) > 0 || o.Rate > 0 {
		return nil, fault.New(fault.Invalid, "edit_one", "an edit is for one message").WithHint("name it in edit alone, without ids and rate")
	}
	ids, err := wire.IDs([]string{edit.ID})
	if err != nil {
		return nil, err
	}
	drafts, err := wire.Drafts([]client.Draft{{Body: edit.Body, ContentType: edit.ContentType}}, c.limits(p.Database))
	if err != nil {
		return nil, err
	}
	e := operate.Edit{ID: ids[0], Format: drafts[0].Format, Body: drafts[0].Body, To: o.To, May: o.May}
	return c.stream(p, eventRedriven, func(ctx context.Context, _ func(client.Progress)) (client.Progress, error) {
		id, err := b.RedriveEdited(ctx, p.Queue, &e)
		if err != nil {
			return client.Progress{}, err
		}
		return client.Progress{Messages: 1, ID: id.String()}, nil
	}), nil
}
