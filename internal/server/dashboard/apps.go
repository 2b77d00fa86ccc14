package dashboard

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/runlot/runlot/client"
)

// Entries of the main navigation, and tabs of an app.
const (
	sectionApps   = "apps"
	sectionQueues = "queues"

	tabOverview  = "overview"
	tabQueues    = "queues"
	tabScheduled = "scheduled"
	tabVersions  = "versions"
	tabLogs      = "logs"
)

// shownEvents is how many events an overview has.
const shownEvents = 15

// appRow is an app in the list.
type appRow struct {
	ID  string
	App client.App
}

func (d *Dashboard) apps(ctx context.Context, v *visit) (*page, error) {
	apps, err := v.api.Apps(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(apps, func(x, y client.App) int { return cmp.Compare(x.Name, y.Name) })
	rows := make([]appRow, len(apps))
	list := fragment{ID: "apps", Template: "app-list", List: "app-rows"}
	for i := range apps {
		rows[i] = appRow{"app." + apps[i].Name, apps[i]}
		list.Parts = append(list.Parts, fragment{ID: rows[i].ID, Template: "app-row", Data: &rows[i]})
	}
	data := map[string]any{"Rows": rows, "May": v.may()}
	list.Data = data
	return &page{Title: "Apps", Section: sectionApps, Template: "apps", Data: data, Fragments: []fragment{list}}, nil
}

// event is something that was done, in words.
type event struct {
	client.Event

	What  string
	About string
}

// verbs say what the kinds of event mean. One that is not here is shown as it is.
var verbs = map[string]string{
	"app.deleted": "deleted the app", "cron.run": "ran", "version.uploaded": "uploaded", "version.amended": "declared for", "version.deployed": "deployed", "routes.ignored": "asked for routes", "version.rolled_back": "went back to",
	"secret.put": "set the secret", "secret.deleted": "deleted the secret", "queue.paused": "paused", "queue.resumed": "resumed", "queue.purged": "purged",
	"queue.created": "made the queue", "queue.deleted": "deleted the queue",
	"queue.redriven": "redrove", "queue.retention_set": "set the retention of", "messages.deleted": "deleted messages of", "messages.retried": "retried messages of",
	"token.created": "made the token", "token.revoked": "revoked the token",
}

// subjects are the details of an event that say what it is about, the best one first, with the word before each. The
// others follow, but for ids that another detail names better.
var subjects = []struct{ name, word string }{{"number", "version "}, {"queue", ""}, {"name", ""}, {"secret", ""}, {"cron", ""}}

func describe(e *client.Event) event {
	out := event{Event: *e, What: verbs[e.Kind]}
	if out.What == "" {
		out.What = e.Kind
	}
	used := map[string]bool{"version": true, "message": true}
	for _, s := range subjects {
		if value := e.Detail[s.name]; value != "" {
			out.What += " " + s.word + value
			used[s.name] = true
			break
		}
	}
	var about []string
	if text := e.Detail["message"]; text != "" {
		about = append(about, text)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Detail)) {
		if value := e.Detail[name]; value != "" && !used[name] {
			about = append(about, name+" "+value)
		}
	}
	out.About = strings.Join(about, ", ")
	return out
}

func (d *Dashboard) overview(ctx context.Context, v *visit) (*page, error) {
	a, err := v.api.App(ctx, v.r.PathValue("app"))
	if err != nil {
		return nil, err
	}
	recent, err := v.api.Events(ctx, a.Name, 0, shownEvents)
	if err != nil {
		return nil, err
	}
	events := make([]event, len(recent))
	for i := range recent {
		events[i] = describe(&recent[i])
	}
	var used []usage
	if a.Database != "" {
		used = usageOf(ctx, v, a.Database)
	}
	state := map[string]any{"App": a}
	done := map[string]any{"Events": events}
	return &page{
		Title: a.Name, Section: sectionApps, App: a, Tab: tabOverview, Template: "overview", Data: map[string]any{"App": a, "Events": done, "Usage": used, "May": v.may()},
		Fragments: []fragment{{ID: "state", Template: "app-state", Data: state}, {ID: "usage", Template: "usage", Data: used}, {ID: "events", Template: "app-events", Data: done}},
	}, nil
}
