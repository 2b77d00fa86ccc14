package queues

import (
	"context"
	"time"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/filter"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/look"
	"github.com/runlot/runlot/internal/engine/broker/store"
	"github.com/runlot/runlot/internal/server/api/endpoint"
	"github.com/runlot/runlot/internal/server/api/reach"
	"github.com/runlot/runlot/internal/server/api/wire"
)

// settled answers with a page of the messages that left a queue.
func (c *calls) settled(ctx context.Context, p *reach.Path, text, cursor string, limit int) (*endpoint.Body[client.Messages], error) {
	if text != "" {
		return nil, fault.New(fault.Invalid, filter.CodeInvalid, "settled messages are listed without a filter").
			WithHint("their bodies are not kept; look one up by its id")
	}
	db, err := c.r.OpenQueue(ctx, p)
	if err != nil {
		return nil, err
	}
	page, err := db.Records.Settled(ctx, p.Queue, cursor, limit)
	if err != nil {
		return nil, err
	}
	out := client.Messages{Items: make([]client.Message, len(page.Messages)), Next: page.Next}
	for i := range page.Messages {
		out.Items[i] = wire.Settled(&page.Messages[i])
	}
	return endpoint.Answer(out), nil
}

// settledOne answers with a message that the queue does not hold, as missing says, if a record tells how it left.
func settledOne(ctx context.Context, db *reach.Database, queueName string, id queue.ID, missing error) (*endpoint.Body[client.Message], error) {
	if f := fault.From(missing); f.Code != look.CodeMessageNotFound {
		return nil, missing
	}
	records, err := db.Records.Of(ctx, []string{queueName}, id, acceptedAt(id))
	if err != nil {
		return nil, err
	}
	for i := range records {
		if left := records[i].Settled(); len(left) > 0 {
			return endpoint.Answer(wire.Settled(&left[0])), nil
		}
	}
	return nil, missing
}

// acceptedAt is when a message was accepted, by its id.
func acceptedAt(id queue.ID) time.Time { return time.UnixMilli(id.Seq() >> store.SeqBits) }
