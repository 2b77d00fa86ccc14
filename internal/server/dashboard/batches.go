package dashboard

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/server/dashboard/view"
)

// outcomes are what batches can be chosen by, with what is said of them.
var outcomes = []struct{ Name, Title string }{
	{"ok", "ok"}, {"failed", "failed"}, {"timeout", "timeout"}, {"lost", "lost"}, {"error", "error"}, {"expired", "expired"}, {"gap", "gap"},
}

// batchRow is a batch in a table.
type batchRow struct {
	ID string
	B  client.Batch
	// Open is the address of the view with this batch open, or without it when it is.
	Open string
	// Whole has the fates and lines of one that is open; nil for the others.
	Whole *client.Batch
	// Command shows the same.
	Command string
	// Queue is the path of the queue's page.
	Queue string
	// One says that the table has batches of one queue only.
	One bool
}

// Why says in a line why a batch did not end well.
func (r *batchRow) Why() string {
	switch {
	case r.B.Error != nil:
		text, _, _ := strings.Cut(r.B.Error.Message, "\n")
		if r.B.Error.Name != "" {
			text = r.B.Error.Name + ": " + text
		}
		return text
	case r.B.Reason != "":
		return r.B.Reason
	case len(r.B.Warnings) > 0:
		return r.B.Warnings[0]
	}
	return ""
}

// batchTable is a table of batches: its data for the page, and its fragment.
type batchTable struct {
	data     map[string]any
	fragment fragment
}

// batchTable shows the batches that a filter and the parameters queue and outcome leave. Queues are those to choose from.
func (d *Dashboard) batchTable(ctx context.Context, v *visit, f *client.BatchFilter, queues []client.Queue) (*batchTable, error) {
	one := f.Queue != ""
	if !one {
		f.Queue = v.q.Get("queue")
	}
	outcome := v.q.Get("outcome")
	for i := range outcomes {
		if outcomes[i].Name == outcome {
			f.Outcome = outcome
		}
	}
	f.Cursor, f.Limit = v.q.Get("cursor"), queue.PageBatches
	list, err := v.api.Batches(ctx, f)
	if err != nil {
		return nil, err
	}
	open := v.q.Get("batch")
	table := fragment{ID: "batch-table", Template: "batch-table", List: "batch-rows"}
	rows := make([]*batchRow, 0, len(list.Items))
	for i := range list.Items {
		row := newBatchRow(v, &list.Items[i])
		if open == row.B.Database+"/"+row.B.ID {
			open = ""
			if err := row.open(ctx, v); err != nil {
				return nil, err
			}
		}
		rows = append(rows, row)
	}
	if database, id, ok := strings.Cut(open, "/"); ok && id != "" {
		// It is older than what is shown, or of another queue: an address that was kept or sent to somebody.
		if whole, err := v.api.Batch(ctx, database, id); err == nil {
			row := newBatchRow(v, whole)
			row.show(v, whole)
			rows = append(rows, row)
		}
	}
	for _, row := range rows {
		row.One = one
		table.Parts = append(table.Parts, fragment{ID: row.ID, Template: "batch-row", Data: row})
	}
	filtered := v.q.Get("outcome") != "" || v.q.Get("queue") != ""
	table.Data = map[string]any{"Rows": rows, "Filtered": filtered, "One": one, "Clear": v.here("outcome", "", "queue", "", "cursor", "") + "#batches"}
	names := make([]string, 0, len(queues))
	for i := range queues {
		names = append(names, queues[i].Name)
	}
	slices.Sort(names)
	data := map[string]any{
		"Table": table.Data, "Path": v.path(), "Queues": slices.Compact(names), "Queue": v.q.Get("queue"), "Outcomes": outcomes, "Outcome": f.Outcome,
		"Kept": keep(v, "queue", "outcome", "cursor", "batch"), "Older": "", "Newest": "",
	}
	if list.Next != "" {
		data["Older"] = v.here("cursor", list.Next) + "#batches"
	}
	if f.Cursor != "" {
		data["Newest"] = v.here("cursor", "") + "#batches"
	}
	return &batchTable{data, table}, nil
}

func newBatchRow(v *visit, b *client.Batch) *batchRow {
	return &batchRow{
		ID: "batch." + b.Database + "." + b.ID, B: *b, Open: v.here("batch", b.Database+"/"+b.ID), Queue: queuePath(b.Database, b.Queue),
		Command: "runlot queue batch " + view.Quote(b.ID) + " --database " + view.Quote(b.Database),
	}
}

// open reads what is shown of an open batch.
func (r *batchRow) open(ctx context.Context, v *visit) error {
	whole, err := v.api.Batch(ctx, r.B.Database, r.B.ID)
	if err != nil {
		return err
	}
	r.show(v, whole)
	return nil
}

func (r *batchRow) show(v *visit, whole *client.Batch) { r.Whole, r.Open = whole, v.here("batch", "") }

// queuePath is the path of a queue's page.
func queuePath(database, name string) string {
	return "/databases/" + url.PathEscape(database) + "/queues/" + url.PathEscape(name)
}

// keep are the parameters of a view but for some, as a form has to send them along.
func keep(v *visit, but ...string) map[string]string {
	kept := map[string]string{}
	for name, values := range v.q {
		if len(values) > 0 && values[0] != "" && !slices.Contains(but, name) {
			kept[name] = values[0]
		}
	}
	return kept
}

// logs shows what handlers logged, batch by batch.
func (d *Dashboard) logs(ctx context.Context, v *visit) (*page, error) {
	a, err := v.api.App(ctx, v.r.PathValue("app"))
	if err != nil {
		return nil, err
	}
	queues, err := v.api.Queues(ctx, a.Name)
	if err != nil {
		return nil, err
	}
	batches, err := d.batchTable(ctx, v, &client.BatchFilter{App: a.Name, Detail: true}, queues)
	if err != nil {
		return nil, err
	}
	f := batches.fragment
	f.ID, f.Template, f.List = "log", "log", "log-entries"
	for i := range f.Parts {
		f.Parts[i].Template = "log-entry"
	}
	command := "runlot logs -f --app " + view.Quote(a.Name)
	if q := v.q.Get("queue"); q != "" {
		command += " --queue " + view.Quote(q)
	}
	batches.data["Command"] = command
	return &page{
		Title: a.Name + " · Logs", Section: sectionApps, App: a, Tab: tabLogs, Template: "logs",
		Data: map[string]any{"Batches": batches.data, "App": a}, Fragments: []fragment{f},
	}, nil
}
