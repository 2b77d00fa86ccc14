package remote

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/daemon/d1"
)

// pending is a D1 database of a version with the migrations of the project that it lacks.
type pending struct {
	Database   string   `json:"database"`
	Migrations []string `json:"migrations"`

	project *d1.Project
}

// lacking compares the migrations in a project folder with those that the databases of a version have. id is "" for one that
// was not stored.
func lacking(ctx context.Context, api *client.Client, m *app.Manifest, id, dir string) ([]pending, error) {
	list := []pending{}
	for i := range m.D1Databases {
		db := &m.D1Databases[i]
		p := d1.Reach(&D1{API: api, App: m.Name, Version: id}, db, dir)
		known, err := p.Migrations(ctx)
		if e, ok := errors.AsType[*client.Error](err); ok && id == "" && e.Status == 404 {
			// The app does not run yet, or has not had this database.
			known, err = d1.Declared(db, dir)
		}
		if err != nil {
			return nil, err
		}
		if names := d1.Pending(known); len(names) > 0 {
			list = append(list, pending{db.Name, names, p})
		}
	}
	return list, nil
}

// note says what is pending, and which command applies it.
func (p *pending) note(talk *terminal.Output) {
	const named = 3
	names := strings.Join(p.Migrations[:min(named, len(p.Migrations))], ", ")
	if more := len(p.Migrations) - named; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	talk.Printf("%s D1 database %s: %s to apply: %s\n", talk.Paint(terminal.Yellow, "note:"), p.Database, terminal.Plural(len(p.Migrations), "migration"), names)
	talk.Printf("      runlot deploy --migrate applies them before the switch, and at any time\n      runlot d1 migrations apply %s --remote\n", p.Database)
}

// apply applies the migrations, and calls done after each. The fault says that nothing was deployed.
func (p *pending) apply(ctx context.Context, done func(name string)) error {
	err := p.project.Apply(ctx, done)
	if err == nil {
		return nil
	}
	const stays = "nothing was deployed, the version before goes on; migrations that were applied before it stay"
	if e, ok := errors.AsType[*client.Error](err); ok {
		return fault.New(fault.Conflict, e.Code, "D1 database %s: %s", p.Database, e.Message).WithHint("%s", stays) // the cause would be shown in its place
	}
	f := fault.From(err)
	if f.Kind == fault.Internal {
		return err
	}
	return fault.New(f.Kind, f.Code, "D1 database %s: %s", p.Database, f.Message).WithHint("%s", stays).WithCause(err)
}

// applyAll applies what each database lacks.
func applyAll(ctx context.Context, list []pending, done func(database, name string)) error {
	for i := range list {
		if err := list[i].apply(ctx, func(name string) { done(list[i].Database, name) }); err != nil {
			return err
		}
	}
	return nil
}
