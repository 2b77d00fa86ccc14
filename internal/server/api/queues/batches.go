package queues

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/ledger"
	"github.com/runlot/runlot/internal/server/api/endpoint"
	"github.com/runlot/runlot/internal/server/api/reach"
	"github.com/runlot/runlot/internal/server/api/wire"
)

const tagBatches = "Batches"

// BatchQuery is the input of the list of batches.
type BatchQuery struct {
	Database string    `query:"database" doc:"Only of this database."`
	Queue    string    `query:"queue" doc:"Only of this queue."`
	App      string    `query:"app" doc:"Only those that this app's handler took."`
	Outcome  string    `query:"outcome" enum:"ok,failed,timeout,lost,error,expired,gap" doc:"Only those that ended like this."`
	Since    time.Time `query:"since" doc:"Only those that were recorded then or later."`
	Cursor   string    `query:"cursor" doc:"The field next of the page before."`
	Limit    int       `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	Detail   bool      `query:"detail" doc:"With fates, stacks and what was logged; at most 100."`
}

func (c *calls) registerBatches() {
	endpoint.Call(c.d, access.Read, huma.Operation{
		OperationID: "list-batches", Method: http.MethodGet, Path: "/v1/batches", Summary: "List how batches ended", Tags: []string{tagBatches},
		Description: "Newest first. A record is written within about a second of its batch's end, and kept for 7 days, at most 10,000 of a queue.",
		Metadata:    map[string]any{endpoint.AnyApp: true},
	}, func(ctx context.Context, in *BatchQuery) (*endpoint.Body[client.Batches], error) {
		out, err := c.batches(ctx, in)
		if err != nil {
			return nil, err
		}
		return endpoint.Answer(out), nil
	})
	endpoint.Call(c.d, access.Read, huma.Operation{
		OperationID: "get-batch", Method: http.MethodGet, Path: "/v1/batches/{database}/{id}", Summary: "Show how one batch ended", Tags: []string{tagBatches},
		Description: "With the fates of its messages and what its handler logged.", Metadata: map[string]any{endpoint.AnyApp: true},
	}, func(ctx context.Context, in *struct {
		Database string `path:"database" maxLength:"63"`
		ID       string `path:"id"`
	},
	) (*endpoint.Body[client.Batch], error) {
		id, err := ledger.ParseID(in.ID)
		if err != nil {
			return nil, err
		}
		db, err := c.r.Open(ctx, &reach.Path{Database: in.Database, Queue: id.Queue})
		if err != nil {
			return nil, err
		}
		r, err := db.Records.Get(ctx, id)
		if err != nil {
			return nil, err
		}
		return endpoint.Answer(wire.Batch(in.Database, r)), nil
	})
}

// found is a record with the place that it was found in.
type found struct {
	record   ledger.Record
	database string
	records  *ledger.Ledger
}

// batches merges the records of the databases.
func (c *calls) batches(ctx context.Context, in *BatchQuery) (client.Batches, error) {
	out := client.Batches{Items: []client.Batch{}}
	limit := min(in.Limit, queue.RecordPage)
	if in.Detail {
		limit = min(limit, queue.BatchPage)
	}
	f := ledger.Filter{App: in.App, Since: in.Since}
	if in.Outcome != "" {
		f.Outcomes = []queue.Outcome{queue.Outcome(in.Outcome)}
	}
	var all []found
	full := false
	for _, name := range c.r.Queues.Databases() {
		if in.Database != "" && in.Database != name || !c.narrow(ctx, name, in.Queue, &f) {
			continue
		}
		page, records, err := c.page(ctx, name, f, in.Cursor, limit)
		if in.Database == "" && fault.KindOf(err) == fault.Unavailable {
			out.Away = append(out.Away, name)
			continue
		}
		if err != nil {
			return out, err
		}
		full = full || page.Next != ""
		for i := range page.Records {
			all = append(all, found{page.Records[i], name, records})
		}
	}
	// Each page is in this order already; a number tells records of all databases apart.
	slices.SortStableFunc(all, func(x, y found) int {
		return cmp.Or(cmp.Compare(y.record.ID.Number, x.record.ID.Number), cmp.Compare(y.record.ID.Queue, x.record.ID.Queue))
	})
	full = full || len(all) > limit
	all = all[:min(len(all), limit)]
	if full && len(all) > 0 {
		out.Next = all[len(all)-1].record.ID.Cursor()
	}
	for i := range all {
		r := &all[i].record
		if in.Detail {
			whole, err := all[i].records.Get(ctx, r.ID)
			if err == nil {
				r = whole // else it was pruned meanwhile
			}
		}
		out.Items = append(out.Items, wire.Batch(all[i].database, r))
	}
	return out, nil
}

// page is a page of the records of one database, and where they are kept.
func (c *calls) page(ctx context.Context, database string, f ledger.Filter, cursor string, limit int) (ledger.Page, *ledger.Ledger, error) {
	db, err := c.r.Queues.Database(ctx, database)
	if err != nil {
		return ledger.Page{}, nil, err
	}
	page, err := db.Records.List(ctx, f, cursor, limit)
	return page, db.Records, err
}

// narrow has a filter look at the queues of a database that the caller may see, and reports whether there are any.
func (c *calls) narrow(ctx context.Context, database, queueName string, f *ledger.Filter) bool {
	t := endpoint.Caller(ctx)
	f.Queues = nil
	if queueName != "" {
		f.Queues = []string{queueName}
		return c.r.Opens(t, database, queueName)
	}
	if t.App == "" {
		return true
	}
	for _, m := range c.r.Queues.Manifests() {
		if m.Name == t.App && m.Database == database {
			f.Queues = m.Queues()
		}
	}
	return len(f.Queues) > 0
}
