package dashboard

import (
	"context"
	"slices"
	"strconv"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/server/dashboard/view"
)

// shownVersions is how many versions a view has.
const shownVersions = 25

// versionRow is a version in the list.
type versionRow struct {
	ID string
	V  client.Version
	// Ask is the address of the question whether to go back to it; "" for those who may not, and for the live one.
	Ask string
	// May says that whoever looks changes things.
	May bool
	// Newer says that it is newer than the live one.
	Newer bool
}

func (d *Dashboard) versions(ctx context.Context, v *visit) (*page, error) {
	a, err := v.api.App(ctx, v.r.PathValue("app"))
	if err != nil {
		return nil, err
	}
	// What is no number is the first page.
	before, _ := strconv.Atoi(v.q.Get("before"))
	versions, err := v.api.Versions(ctx, a.Name, max(before, 0), shownVersions)
	if err != nil {
		return nil, err
	}
	deployments, err := v.api.Deployments(ctx, a.Name, 0, shownVersions)
	if err != nil {
		return nil, err
	}
	live := 0
	if a.Live != nil {
		live = a.Live.Number
	}
	list := fragment{ID: "versions", Template: "version-list", List: "version-rows"}
	rows := make([]*versionRow, len(versions))
	for i := range versions {
		rows[i] = &versionRow{May: v.may(), ID: "version." + strconv.Itoa(versions[i].Number), V: versions[i], Newer: versions[i].Number > live}
		if v.may() && !versions[i].Live {
			rows[i].Ask = v.here("ask", "rollback", "version", strconv.Itoa(versions[i].Number))
		}
		list.Parts = append(list.Parts, fragment{ID: rows[i].ID, Template: "version-row", Data: rows[i]})
	}
	older := ""
	if len(versions) == shownVersions {
		older = v.here("before", strconv.Itoa(versions[len(versions)-1].Number))
	}
	list.Data = map[string]any{"Rows": rows, "May": v.may(), "App": a, "Older": older}
	done := map[string]any{"Deployments": deployments}
	p := &page{
		Title: a.Name + " · Versions", Section: sectionApps, App: a, Tab: tabVersions, Template: "versions",
		Data:      map[string]any{"List": list.Data, "App": a, "Done": done, "May": v.may()},
		Fragments: []fragment{list, {ID: "deployments", Template: "deployments", Data: done}},
	}
	p.Dialog = versionDialog(v, a, versions, live)
	return p, nil
}

// versionDialog is the dialog that the parameters ask for.
func versionDialog(v *visit, a *client.App, versions []client.Version, live int) *dialog {
	at := slices.IndexFunc(versions, func(x client.Version) bool { return strconv.Itoa(x.Number) == v.q.Get("version") })
	if v.q.Get("ask") != "rollback" || at < 0 || versions[at].Live || !v.may() {
		return nil
	}
	chosen := &versions[at]
	number, back := strconv.Itoa(chosen.Number), v.here("ask", "", "version", "")
	ask := &dialog{
		Action: "/apps/" + a.Name + "/rollback", Fields: map[string]string{"version": chosen.ID, "number": number}, Back: back, Next: back,
		Title: "Make version " + number + " live?", Verb: "Make " + number + " live",
		Text: "It starts beside version " + strconv.Itoa(live) + " and takes over when it listens: no request fails, and what is in flight finishes. " +
			"Its queues come with it; a consumer that it does not have stops, and the messages stay.",
		Command: "runlot rollback " + number + " --app " + view.Quote(a.Name),
	}
	if live == 0 {
		ask.Text = "It starts, and takes requests and messages when it listens."
	}
	return ask
}

func (d *Dashboard) rollback(ctx context.Context, v *visit) (string, error) {
	done, err := v.api.Deploy(ctx, v.r.PathValue("app"), &client.Deploy{Version: v.r.PostFormValue("version"), Rollback: true, Message: "from the page"})
	if err != nil {
		return "", err
	}
	return done.App + " is on version " + strconv.Itoa(done.Version.Number) + ".", nil
}
