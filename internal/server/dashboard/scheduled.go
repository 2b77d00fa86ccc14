package dashboard

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/server/dashboard/view"
)

// cronRow is a cron in the list.
type cronRow struct {
	ID string
	C  client.Cron
	// Runs is the address of the view with this cron's runs alone.
	Runs string
	// Ask is the address of the question whether to run it now; "" for those who may not.
	Ask string
	May bool
}

// runRow is a run in the list.
type runRow struct {
	ID string
	R  client.Run
}

// codeNotRunning is the code of the API for an app that has no crons because it does not run.
const codeNotRunning = "app_not_running"

func (d *Dashboard) scheduled(ctx context.Context, v *visit) (*page, error) {
	a, err := v.api.App(ctx, v.r.PathValue("app"))
	if err != nil {
		return nil, err
	}
	crons, err := v.api.Crons(ctx, a.Name)
	if err != nil && !hasCode(err, codeNotRunning) {
		return nil, err
	}
	filter := &client.RunFilter{Cron: v.q.Get("cron"), Cursor: v.q.Get("cursor"), Limit: queue.PageBatches}
	if slices.Contains(runOutcomes, v.q.Get("outcome")) {
		filter.Outcome = v.q.Get("outcome")
	}
	runs, err := v.api.Runs(ctx, a.Name, filter)
	if hasCode(err, codeNotRunning) {
		runs, err = &client.Runs{}, nil
	}
	if err != nil {
		return nil, err
	}
	list := cronList(v, a, crons)
	table := fragment{ID: "runs", Template: "run-table", List: "run-rows"}
	rows := make([]*runRow, len(runs.Items))
	for i := range runs.Items {
		rows[i] = &runRow{"run." + strconv.FormatInt(runs.Items[i].ID, 10), runs.Items[i]}
		table.Parts = append(table.Parts, fragment{ID: rows[i].ID, Template: "run-row", Data: rows[i]})
	}
	table.Data = map[string]any{
		"Rows": rows, "Filtered": filter.Cron != "" || filter.Outcome != "", "Clear": v.here("cron", "", "outcome", "", "cursor", ""), "Crons": len(crons),
	}
	expressions := make([]string, len(crons))
	for i := range crons {
		expressions[i] = crons[i].Cron
	}
	data := map[string]any{
		"List": list.Data, "Table": table.Data, "Path": v.path(), "Kept": keep(v, "cron", "outcome", "cursor"), "Crons": expressions, "Cron": filter.Cron,
		"Outcomes": runOutcomes, "Outcome": filter.Outcome, "Older": "", "Newest": "",
	}
	if runs.Next != "" {
		data["Older"] = v.here("cursor", runs.Next)
	}
	if filter.Cursor != "" {
		data["Newest"] = v.here("cursor", "")
	}
	return &page{
		Title: a.Name + " · Scheduled runs", Section: sectionApps, App: a, Tab: tabScheduled, Template: "scheduled", Data: data,
		Fragments: []fragment{list, table}, Dialog: cronDialog(v, a, crons),
	}, nil
}

// runOutcomes are what runs can be chosen by.
var runOutcomes = []string{"ok", "failed", "timeout", "lost", "error", "missed"}

func hasCode(err error, code string) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && e.Code == code
}

func cronList(v *visit, a *client.App, crons []client.Cron) fragment {
	list := fragment{ID: "crons", Template: "cron-list", List: "cron-rows"}
	rows := make([]*cronRow, len(crons))
	for i := range crons {
		c := &crons[i]
		rows[i] = &cronRow{ID: "cron." + strconv.Itoa(i), C: *c, Runs: v.here("cron", c.Cron, "cursor", ""), May: v.may()}
		if v.may() && c.RunningSince == nil {
			rows[i].Ask = v.here("ask", "run", "on", c.Cron)
		}
		list.Parts = append(list.Parts, fragment{ID: rows[i].ID, Template: "cron-row", Data: rows[i]})
	}
	list.Data = map[string]any{"Rows": rows, "May": v.may(), "App": a}
	return list
}

// cronDialog is the dialog that the parameters ask for.
func cronDialog(v *visit, a *client.App, crons []client.Cron) *dialog {
	cron := v.q.Get("on")
	if v.q.Get("ask") != "run" || !v.may() || !slices.ContainsFunc(crons, func(c client.Cron) bool { return c.Cron == cron }) {
		return nil
	}
	back := v.here("ask", "", "on", "")
	return &dialog{
		Title: "Run " + cron + " now?", Verb: "Run now", Action: "/apps/" + url.PathEscape(a.Name) + "/run", Fields: map[string]string{"cron": cron}, Back: back, Next: back,
		Text:    "The scheduled handler of the live version runs once, with the present time. Its next occurrence comes as before.",
		Command: "runlot cron run " + view.Quote(cron) + " --app " + view.Quote(a.Name),
	}
}

// patience is how long an action waits for a run that it began. A run goes on without anybody who waits.
const patience = 3 * time.Second

func (d *Dashboard) runCron(ctx context.Context, v *visit) (string, error) {
	cron := v.r.PostFormValue("cron")
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	run, err := v.api.RunCron(bounded, v.r.PathValue("app"), &client.RunCron{Cron: cron})
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return cron + " runs. How it ends appears here.", nil
	}
	if err != nil {
		return "", err
	}
	return cron + " ran: " + run.Outcome + ", in " + view.Span(run.Milliseconds) + ".", nil
}
