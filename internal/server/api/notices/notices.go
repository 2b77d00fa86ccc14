// Package notices is the call of the API about what operators were told.
package notices

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/notify"
	"github.com/runlot/runlot/internal/server/api/endpoint"
)

// Register has a door answer the call.
func Register(d *endpoint.Door, outbox notify.Outbox) {
	endpoint.Call(d, access.Read, huma.Operation{
		OperationID: "list-notices", Method: http.MethodGet, Path: "/v1/notices", Summary: "List what operators were told", Tags: []string{"Notices"},
		Description: "Newest first, by mail and webhooks, with what has become of each. At most 10,000 are kept.",
	}, func(ctx context.Context, in *endpoint.PageQuery) (*endpoint.List[client.Notice], error) {
		stored, err := outbox.Notices(ctx, in.Before, in.Limit)
		if err != nil {
			return nil, err
		}
		list := make([]client.Notice, len(stored))
		for i := range stored {
			list[i] = describe(&stored[i])
		}
		return endpoint.ListOf(list), nil
	})
}

func describe(s *notify.Stored) client.Notice {
	n := s.Notice
	out := client.Notice{
		ID: s.ID, At: n.At, Rule: string(n.Rule), App: n.App, Database: n.Database, Queue: n.Queue, Cron: n.Cron, Title: notify.Describe(n).Title,
		Ways: make([]client.NoticeWay, len(s.Ways)),
	}
	for i := range s.Ways {
		w := &s.Ways[i]
		out.Ways[i] = client.NoticeWay{Way: w.Way, State: string(w.State), Attempts: w.Attempt, Next: moment(w.Next), Sent: moment(w.Sent), Problem: w.Problem}
	}
	return out
}

func moment(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}
