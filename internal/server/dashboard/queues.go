package dashboard

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/server/dashboard/settings"
	"github.com/runlot/runlot/internal/server/dashboard/view"
)

// queueRow is a queue in a table.
type queueRow struct {
	ID string
	Q  client.Queue
	// Path is that of the queue's page, and Dead that of its dead-letter queue's; "" without one.
	Path, Dead string
	// Rates are how fast messages came and went of late; nil when that is not known.
	Rates *client.QueueRates
	// Ask is the address of the question whether to pause or resume; "" for those who may not.
	Ask string
	// May says that whoever looks changes things.
	May bool
	// Batches is the address of the queue's batches, in the same view.
	Batches string
	// Shared says that the table has queues of several databases, or of several apps.
	Shared bool
}

// column is a column of the table of queues.
type column struct {
	Name, Title string
	Number      bool
	// Sort is the address of the view with this column's order, and Order the order that it has: "ascending", "descending", "".
	Sort, Order string
}

// orders are the columns that a table of queues can be sorted by. The first click has the most on top, but for names.
var orders = []struct {
	name, title string
	number      bool
	compare     func(x, y *client.Queue) int
}{
	{"name", "Queue", false, func(_, _ *client.Queue) int { return 0 }},
	{"visible", "Visible", true, func(x, y *client.Queue) int { return cmp.Compare(x.Visible, y.Visible) }},
	{"delayed", "Delayed", true, func(x, y *client.Queue) int { return cmp.Compare(x.Delayed, y.Delayed) }},
	{"in_flight", "In flight", true, func(x, y *client.Queue) int { return cmp.Compare(x.InFlight, y.InFlight) }},
	{"dead", "Dead letters", true, func(x, y *client.Queue) int { return cmp.Compare(x.DeadLetters, y.DeadLetters) }},
	{"oldest", "Oldest", true, func(x, y *client.Queue) int { return cmp.Compare(age(x), age(y)) }},
}

func age(q *client.Queue) time.Duration {
	if q.Oldest == nil {
		return 0
	}
	return time.Since(*q.Oldest)
}

// shownRates is how many points a sparkline has.
const shownRates = 45

// usage is what a database has used of its operations today.
type usage struct {
	Database   string
	Today, Cap int64
}

func (d *Dashboard) allQueues(ctx context.Context, v *visit) (*page, error) {
	p, err := d.queuesPage(ctx, v, "")
	if err != nil {
		return nil, err
	}
	p.Title, p.Section = "Queues", sectionQueues
	return p, nil
}

func (d *Dashboard) appQueues(ctx context.Context, v *visit) (*page, error) {
	a, err := v.api.App(ctx, v.r.PathValue("app"))
	if err != nil {
		return nil, err
	}
	p, err := d.queuesPage(ctx, v, a.Name)
	if err != nil {
		return nil, err
	}
	p.Title, p.Section, p.App, p.Tab = a.Name+" · Queues", sectionApps, a, tabQueues
	return p, nil
}

// queuesPage shows the queues of an app or, for "", all, and their batches.
func (d *Dashboard) queuesPage(ctx context.Context, v *visit, appName string) (*page, error) {
	all, err := v.api.Queues(ctx, appName)
	if err != nil {
		return nil, err
	}
	batches, err := d.batchTable(ctx, v, &client.BatchFilter{App: appName}, all)
	if err != nil {
		return nil, err
	}
	shown := filterQueues(v, all)
	// The table is of use without them.
	rates, _ := v.api.Rates(ctx, appName, "", shownRates)
	table := queueTable(v, shown, rates, appName)
	used := usages(ctx, v, all)
	data := map[string]any{
		"App": appName, "Path": v.path(), "Table": table.Data, "Usage": used, "Batches": batches.data, "Find": v.q.Get("find"), "Total": len(all), "Kept": keep(v, "find"),
		"Paused": v.q.Get("only") == "paused", "May": v.may(),
	}
	return &page{
		Template: "queues", Data: data, Dialog: queueDialog(v, all),
		Fragments: []fragment{{ID: "usage", Template: "usage", Data: used}, table, batches.fragment},
	}, nil
}

// queue is the page of one queue.
func (d *Dashboard) queue(ctx context.Context, v *visit) (*page, error) {
	q, err := v.api.Queue(ctx, v.r.PathValue("database"), v.r.PathValue("queue"))
	if err != nil {
		return nil, err
	}
	one := []client.Queue{*q}
	batches, err := d.batchTable(ctx, v, &client.BatchFilter{Database: q.Database, Queue: q.Name}, nil)
	if err != nil {
		return nil, err
	}
	over, err := overTime(ctx, v, q)
	if err != nil {
		return nil, err
	}
	facts := map[string]any{"Row": newQueueRow(v, q), "May": v.may()}
	set := map[string]any{"List": settings.Of(q), "May": v.may(), "Queues": queuePath(q.Database, ""), "DeadLettersOf": q.DeadLettersOf}
	return &page{
		Title: q.Name, Section: sectionQueues, Template: "queue", Data: map[string]any{"Q": q, "Base": queuePath(q.Database, q.Name), "Facts": facts, "Charts": over.Data, "Batches": batches.data, "Settings": set, "May": v.may()},
		Dialog: queueDialog(v, one), Fragments: []fragment{{ID: "facts", Template: "queue-facts", Data: facts}, over, batches.fragment, {ID: "settings", Template: "settings", Data: set}},
	}, nil
}

// filterQueues leaves those that the parameters find and only ask for, in the order that sort asks for.
func filterQueues(v *visit, all []client.Queue) []client.Queue {
	find, paused := strings.ToLower(v.q.Get("find")), v.q.Get("only") == "paused"
	shown := slices.Clone(all)
	shown = slices.DeleteFunc(shown, func(q client.Queue) bool {
		return find != "" && !strings.Contains(strings.ToLower(q.Name+" "+q.Database), find) || paused && q.PausedSince == nil
	})
	by, descending := order(v)
	slices.SortStableFunc(shown, func(x, y client.Queue) int {
		c := 0
		for i := range orders {
			if orders[i].name == by {
				c = orders[i].compare(&x, &y)
			}
		}
		c = cmp.Or(c, 0)
		names := cmp.Or(cmp.Compare(x.Database, y.Database), cmp.Compare(x.Name, y.Name))
		if by == "name" {
			c, names = names, 0
		}
		if descending {
			c = -c
		}
		return cmp.Or(c, names)
	})
	return shown
}

// order is the column that a table of queues is sorted by: "visible" or, from the most on, "-visible".
func order(v *visit) (by string, descending bool) {
	by, descending = strings.CutPrefix(v.q.Get("sort"), "-")
	if by == "" {
		return "name", false
	}
	return by, descending
}

func newQueueRow(v *visit, q *client.Queue) *queueRow {
	row := &queueRow{May: v.may(), ID: "queue." + q.Database + "." + q.Name, Q: *q, Path: queuePath(q.Database, q.Name), Batches: v.here("queue", q.Name, "cursor", "", "batch", "") + "#batches"}
	if q.Consumer != nil && q.Consumer.DeadLetterQueue != "" {
		row.Dead = queuePath(q.Database, q.Consumer.DeadLetterQueue)
	}
	// Where nothing is delivered there is nothing to pause.
	if v.may() && (q.Consumer != nil || q.PausedSince != nil) {
		verb := "pause"
		if q.PausedSince != nil {
			verb = "resume"
		}
		row.Ask = v.here("ask", verb, "on", q.Database+"/"+q.Name)
	}
	return row
}

// queueTable draws a table of queues.
func queueTable(v *visit, shown []client.Queue, rates []client.QueueRates, appName string) fragment {
	by, descending := order(v)
	columns := make([]column, 0, len(orders))
	for i := range orders {
		o := &orders[i]
		c := column{Name: o.name, Title: o.title, Number: o.number}
		next := o.name
		if o.number {
			next = "-" + o.name
		}
		if by == o.name {
			c.Order, next = "ascending", "-"+o.name
			if descending {
				c.Order, next = "descending", o.name
			}
		}
		c.Sort = v.here("sort", next)
		columns = append(columns, c)
	}
	known := map[[2]string]*client.QueueRates{}
	for i := range rates {
		known[[2]string{rates[i].Database, rates[i].Queue}] = &rates[i]
	}
	rows := make([]*queueRow, len(shown))
	table := fragment{ID: "queues", Template: "queue-table", List: "queue-rows"}
	for i := range shown {
		rows[i] = newQueueRow(v, &shown[i])
		rows[i].Rates = known[[2]string{shown[i].Database, shown[i].Name}]
		rows[i].Shared = appName == "" || shown[i].Consumer != nil && shown[i].Consumer.App != appName
		table.Parts = append(table.Parts, fragment{ID: rows[i].ID, Template: "queue-row", Data: rows[i]})
	}
	table.Data = map[string]any{
		"Rows": rows, "Columns": columns, "May": v.may(), "App": appName, "Filtered": v.q.Get("find") != "" || v.q.Get("only") != "",
		"Clear": v.here("find", "", "only", ""),
	}
	return table
}

// usages are those of the databases of some queues. One that does not answer is left out.
func usages(ctx context.Context, v *visit, queues []client.Queue) []usage {
	var list []usage
	for i := range queues {
		name := queues[i].Database
		if slices.ContainsFunc(list, func(u usage) bool { return u.Database == name }) {
			continue
		}
		list = append(list, usageOf(ctx, v, name)...)
	}
	return list
}

// usageOf is that of a database; none of one that does not answer.
func usageOf(ctx context.Context, v *visit, database string) []usage {
	u, err := v.api.Usage(ctx, database)
	if err != nil {
		return nil
	}
	one := usage{Database: database, Cap: u.Cap}
	if len(u.Days) > 0 {
		one.Today = u.Days[0].Total
	}
	return []usage{one}
}

// queueDialog is the dialog that the parameters ask for.
func queueDialog(v *visit, queues []client.Queue) *dialog {
	verb := v.q.Get("ask")
	at := slices.IndexFunc(queues, func(q client.Queue) bool { return q.Database+"/"+q.Name == v.q.Get("on") })
	if at < 0 || !v.may() {
		return nil
	}
	q := &queues[at]
	back := v.here("ask", "", "on", "")
	ask := &dialog{
		Action: queuePath(q.Database, q.Name) + "/" + verb, Back: back, Next: back,
		Command: "runlot queue " + verb + " " + view.Quote(q.Name) + " --database " + view.Quote(q.Database),
	}
	switch verb {
	case "pause":
		ask.Title, ask.Verb = "Pause "+q.Name+"?", "Pause"
		ask.Text = "Its messages are not delivered until you resume it. Sends are accepted as before, and what is in flight finishes."
	case "resume":
		ask.Title, ask.Verb = "Resume "+q.Name+"?", "Resume"
		ask.Text = "Its messages are delivered again, the oldest first."
	default:
		return nil
	}
	return ask
}

func (d *Dashboard) pause(ctx context.Context, v *visit) (string, error) {
	name := v.r.PathValue("queue")
	return "Paused " + name + ". Its messages wait until you resume it.", v.api.Pause(ctx, v.r.PathValue("database"), name)
}

func (d *Dashboard) resume(ctx context.Context, v *visit) (string, error) {
	name := v.r.PathValue("queue")
	return "Resumed " + name + ".", v.api.Resume(ctx, v.r.PathValue("database"), name)
}
