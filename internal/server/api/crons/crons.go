package crons

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/engine/schedule"
	"github.com/runlot/runlot/internal/server/api/endpoint"
	"github.com/runlot/runlot/internal/server/api/reach"
)

// Cron is a cron of an app that runs.
type Cron struct {
	// Text is the expression, Words says it for a person, and Next is when it comes next.
	Text, Words string
	Next        time.Time
	State       schedule.State
	Standing    schedule.Standing
}

// Instance is what the calls ask of what runs. Faults: NotFound (CodeNotRunning) for an app that does not run here, and
// Unavailable while the app's database does not answer.
type Instance interface {
	// Crons are those of an app's version, in its order.
	Crons(ctx context.Context, appName string) ([]Cron, error)
	// Runs are the kept runs of an app, see schedule.History.
	Runs(ctx context.Context, f *schedule.Filter, limit int) ([]schedule.Kept, error)
	// Fire runs the handler of an app, see schedule.Scheduler.FireNow.
	Fire(ctx context.Context, appName, cron string, at time.Time) (*schedule.Record, error)
}

// Codes of faults.
const (
	CodeNotRunning = "app_not_running"
	codeUnknown    = "cron_unknown"
	codeAmbiguous  = "cron_ambiguous"
)

// eventRun is the kind of event that a run by hand leaves.
const eventRun = "cron.run"

type calls struct {
	instance Instance
	events   reach.Events
	log      *slog.Logger
}

// Register has a door answer the calls. events is nil where none are kept.
func Register(d *endpoint.Door, instance Instance, events reach.Events, log *slog.Logger) {
	c := &calls{instance, events, log}
	tags := []string{"Crons"}
	endpoint.Call(d, access.Read, huma.Operation{
		OperationID: "list-crons", Method: http.MethodGet, Path: "/v1/apps/{app}/crons", Summary: "List the crons of an app", Tags: tags,
		Description: "Those of the version that runs, in the order of its configuration.",
	}, c.list)
	endpoint.Call(d, access.Read, huma.Operation{
		OperationID: "list-runs", Method: http.MethodGet, Path: "/v1/apps/{app}/runs", Summary: "List how scheduled runs ended", Tags: tags,
		Description: "Newest first. Records are kept for 7 days, at most 10,000 of a cron.",
	}, c.runs)
	endpoint.Call(d, access.Deploy, huma.Operation{
		OperationID: "run-cron", Method: http.MethodPost, Path: "/v1/apps/{app}/crons/run", Summary: "Run the scheduled handler now", Tags: tags,
		Description: "Answers when the run has ended, also when it went wrong; then it is not tried again. A run that began goes on when the caller " +
			"goes away. An app has one run at a time: while another is under way, the call is refused with run_under_way.",
	}, c.run)
}

func (c *calls) list(ctx context.Context, in *endpoint.AppPath) (*endpoint.List[client.Cron], error) {
	ctx, cancel := context.WithTimeout(ctx, queue.RunsAnswerTime)
	defer cancel()
	list, err := c.instance.Crons(ctx, in.App)
	if err != nil {
		return nil, err
	}
	out := make([]client.Cron, len(list))
	for i := range list {
		given := &list[i]
		out[i] = client.Cron{
			Cron: given.Text, Description: given.Words, Next: given.Next.UTC(), RetryAt: moment(given.State.Try),
			FailingSince: moment(given.Standing.FailingSince),
		}
		if given.State.Phase == schedule.Running {
			out[i].RunningSince = moment(given.State.Began)
		}
		if last := given.Standing.Last; last != nil {
			r := wire(last)
			out[i].Last = &r
		}
	}
	return endpoint.ListOf(out), nil
}

// RunsQuery is the input of the list of runs.
type RunsQuery struct {
	endpoint.AppPath

	Cron    string `query:"cron" doc:"Only of this cron: its expression."`
	Outcome string `query:"outcome" enum:"ok,failed,timeout,lost,error,missed" doc:"Only those that ended like this."`
	Cursor  string `query:"cursor" doc:"The field next of the page before."`
	Limit   int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

func (c *calls) runs(ctx context.Context, in *RunsQuery) (*endpoint.Body[client.Runs], error) {
	ctx, cancel := context.WithTimeout(ctx, queue.RunsAnswerTime)
	defer cancel()
	f := schedule.Filter{App: in.App}
	if in.Cron != "" {
		text := tidy(in.Cron)
		f.Cron = &text
	}
	if in.Outcome != "" {
		f.Outcomes = []queue.Outcome{queue.Outcome(in.Outcome)}
	}
	if in.Cursor != "" {
		var err error
		if f.Before, err = strconv.ParseInt(in.Cursor, 10, 64); err != nil || f.Before <= 0 {
			return nil, fault.New(fault.Invalid, "cursor_invalid", "%q is no cursor of a page of runs", in.Cursor).
				WithHint("take the field next of the page before as it is")
		}
	}
	list, err := c.instance.Runs(ctx, &f, in.Limit+1)
	if err != nil {
		return nil, err
	}
	out := client.Runs{Items: make([]client.Run, min(len(list), in.Limit))}
	for i := range out.Items {
		out.Items[i] = wire(&list[i])
	}
	if len(list) > in.Limit {
		out.Next = strconv.FormatInt(list[in.Limit-1].ID, 10)
	}
	return endpoint.Answer(out), nil
}

// tidy is an expression as it is kept: with single spaces.
func tidy(text string) string { return strings.Join(strings.Fields(text), " ") }

func (c *calls) run(ctx context.Context, in *struct {
	endpoint.AppPath

	Body client.RunCron
},
) (*endpoint.Body[client.Run], error) {
	text, err := c.choose(ctx, in.App, in.Body.Cron)
	if err != nil {
		return nil, err
	}
	at := time.Now()
	if in.Body.At != nil {
		at = *in.Body.At
	}
	// A run that begins is brought to its end, also when the caller goes away.
	ctx = context.WithoutCancel(ctx)
	begin, cancel := context.WithTimeout(ctx, queue.RunBeginTime)
	defer cancel()
	record, err := c.instance.Fire(begin, in.App, text, at)
	if err != nil {
		return nil, err
	}
	if c.events != nil {
		e := &deploy.Event{
			At: time.Now().UTC().Truncate(time.Microsecond), Kind: eventRun, App: in.App, Author: endpoint.Author(ctx),
			Detail: map[string]string{"cron": text, "outcome": string(record.Outcome)},
		}
		if err := c.events.AddEvent(ctx, e, queue.KeptEvents); err != nil {
			c.log.Error("an event was not recorded", "kind", eventRun, "app", in.App, "error", fault.Detail(err))
		}
	}
	return endpoint.Answer(wire(&schedule.Kept{Record: *record})), nil
}

// choose finds the cron that is meant; "" is the only one, or none when the app has none.
func (c *calls) choose(ctx context.Context, appName, given string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, queue.RunsAnswerTime)
	defer cancel()
	list, err := c.instance.Crons(ctx, appName)
	if err != nil {
		return "", err
	}
	given = tidy(given)
	var known []string
	for i := range list {
		if strings.EqualFold(list[i].Text, given) {
			return list[i].Text, nil
		}
		known = append(known, strconv.Quote(list[i].Text))
	}
	const named = 5
	more := ""
	if len(known) > named {
		more, known = " and others", known[:named]
	}
	switch {
	case given == "" && len(list) == 0:
		return "", nil
	case given == "" && len(list) == 1:
		return list[0].Text, nil
	case given == "":
		return "", fault.New(fault.Invalid, codeAmbiguous, "%s has %d crons", appName, len(list)).
			WithHint("name one of %s%s", strings.Join(known, ", "), more)
	case len(list) == 0:
		return "", fault.New(fault.NotFound, codeUnknown, "%s has no crons", appName).WithHint("without an expression, its handler is run all the same")
	}
	return "", fault.New(fault.NotFound, codeUnknown, "%s has no cron %q", appName, given).WithHint("it has %s%s", strings.Join(known, ", "), more)
}

func moment(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	at = at.UTC()
	return &at
}

func wire(k *schedule.Kept) client.Run {
	r := client.Run{
		ID: k.ID, App: k.App, Cron: k.Cron, At: k.At.UTC(), Attempt: k.Attempt, Version: k.Version, Node: k.Node, Start: k.Start.UTC(),
		Milliseconds: float64(k.Duration) / float64(time.Millisecond), Outcome: string(k.Outcome), Missed: k.Missed, Manual: k.Manual,
		Retry: moment(k.Retry), Reason: k.Reason,
	}
	if k.Error != nil {
		e := client.Exception(*k.Error)
		r.Error = &e
	}
	return r
}
