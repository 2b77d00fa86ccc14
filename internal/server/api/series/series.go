package series

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	numbers "github.com/runlot/runlot/internal/engine/series"
	"github.com/runlot/runlot/internal/server/api/endpoint"
	"github.com/runlot/runlot/internal/server/api/reach"
)

// calls are the calls about series.
type calls struct{ r *reach.Reach }

const tagSeries = "Series"

// Register has a door answer the calls about series.
func Register(d *endpoint.Door, r *reach.Reach) {
	c := &calls{r}
	endpoint.Call(d, access.Read, huma.Operation{
		OperationID: "get-series", Method: http.MethodGet, Path: "/v1/databases/{database}/queues/{queue}/series",
		Summary: "Show how a queue did over time", Tags: []string{tagSeries}, Metadata: map[string]any{endpoint.AnyApp: true},
		Description: "Points without a gap: counts are sums, the rest is the highest of the time. Ten-second points reach back 15 minutes, minutes 7 days. " +
			"The step becomes longer than asked for where it gives more than 720 points, or where the numbers are there by the minute only. " +
			"After a crash, up to the last minute is missing.",
	}, c.series)
	endpoint.Call(d, access.Read, huma.Operation{
		OperationID: "list-rates", Method: http.MethodGet, Path: "/v1/series", Summary: "Show how fast messages come and go",
		Tags: []string{tagSeries}, Metadata: map[string]any{endpoint.AnyApp: true},
		Description: "Of the last 15 minutes, for all queues at once, from memory alone.",
	}, c.rates)
}

// seriesQuery is the input of the series of a queue.
type seriesQuery struct {
	reach.Path

	From time.Time `query:"from" doc:"15 minutes before to, when it is not given."`
	To   time.Time `query:"to" doc:"Now, when it is not given."`
	Step int       `query:"step" minimum:"10" maximum:"3600" doc:"Seconds of a point; one that gives up to 240 points, when it is not given."`
}

func (c *calls) series(ctx context.Context, in *seriesQuery) (*endpoint.Body[client.Series], error) {
	if !c.r.Opens(endpoint.Caller(ctx), in.Database, in.Queue) {
		return nil, reach.Forbidden(ctx, "the queue "+in.Queue+" of database "+in.Database)
	}
	recorder := c.r.Queues.Series(in.Database)
	if recorder == nil {
		return nil, fault.New(fault.NotFound, queue.CodeQueueNotFound, "no app uses a database %q", in.Database).
			WithHint("a database is there from the first deployment that names it")
	}
	if !recorder.Knows(in.Queue) {
		if _, err := c.r.OpenQueue(ctx, &in.Path); err != nil {
			return nil, err
		}
	}
	found, err := recorder.Series(ctx, numbers.Query{Queue: in.Queue, From: in.From, To: in.To, Step: time.Duration(in.Step) * time.Second})
	if err != nil {
		return nil, err
	}
	out := client.Series{
		Database: in.Database, Queue: in.Queue, StepSeconds: int(found.Step / time.Second), Points: make([]client.SeriesPoint, len(found.Points)),
		Known: found.Known.UTC(),
	}
	for i := range found.Points {
		out.Points[i] = point(&found.Points[i])
	}
	return endpoint.Answer(out), nil
}

func point(p *numbers.Point) client.SeriesPoint {
	out := client.SeriesPoint{
		Time: p.Start.UTC(), Sent: p.Sent, SentBytes: p.SentBytes, Arrived: p.Arrived, Left: p.Left, Delivered: p.Delivered,
		Acked: p.Acked, Retried: p.Retried, Redelivered: p.Redelivered, Dead: p.Dead, Dropped: p.Dropped, Expired: p.Expired,
		Visible: p.Visible, Delayed: p.Delayed, InFlight: p.InFlight, OldestSeconds: p.Oldest.Seconds(), Running: p.Running, Allowed: p.Allowed,
	}
	out.Batches, out.FailedBatches = p.Ended()
	if out.Batches > 0 {
		out.Handler = &client.HandlerTimes{
			MeanMilliseconds: milliseconds(p.HandlerTime / time.Duration(out.Batches)), P50Milliseconds: milliseconds(p.Handler.Quantile(0.5)),
			P95Milliseconds: milliseconds(p.Handler.Quantile(0.95)), P99Milliseconds: milliseconds(p.Handler.Quantile(0.99)),
		}
	}
	return out
}

// milliseconds are as exact as anybody needs them.
func milliseconds(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}

// ratesQuery is the input of the rates of queues.
type ratesQuery struct {
	App      string `query:"app" doc:"Only the queues that this app's version names."`
	Database string `query:"database" doc:"Only those of this database."`
	Points   int    `query:"points" minimum:"1" maximum:"90" default:"30"`
}

func (c *calls) rates(ctx context.Context, in *ratesQuery) (*endpoint.List[client.QueueRates], error) {
	if only := endpoint.Caller(ctx).App; only != "" {
		if in.App != "" && in.App != only {
			return nil, endpoint.Caller(ctx).Allow(access.Read, in.App)
		}
		in.App = only
	}
	apps := c.r.Queues.Manifests()
	var list []client.QueueRates
	for _, database := range c.r.Queues.Databases() {
		recorder := c.r.Queues.Series(database)
		if in.Database != "" && in.Database != database || recorder == nil {
			continue
		}
		recent := recorder.Recent(in.Points)
		for i := range recent.Queues {
			r := &recent.Queues[i]
			if in.App != "" && !slices.ContainsFunc(apps, func(m *app.Manifest) bool { return m.Name == in.App && m.Names(database, r.Queue) }) {
				continue
			}
			list = append(list, client.QueueRates{
				Database: database, Queue: r.Queue, From: recent.From, Known: recent.Known, StepSeconds: int(recent.Step / time.Second), In: r.In, Out: r.Out,
			})
		}
	}
	return endpoint.ListOf(list), nil
}
