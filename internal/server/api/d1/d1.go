package d1

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/d1"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/engine/migrate"
	"github.com/runlot/runlot/internal/server/api/endpoint"
	"github.com/runlot/runlot/internal/server/api/reach"
)

// Databases are the D1 databases of a node, by identity.
type Databases interface {
	// Run runs queries as one transaction, and Look those that only read, of a database that need not exist. What the caller
	// may see of a failure is a d1.Error.
	Run(ctx context.Context, identity string, queries []d1.Query) ([]d1.Result, error)
	Look(ctx context.Context, identity string, queries []d1.Query) ([]d1.Result, error)
	// Bytes is the size of a database; 0 when it does not exist.
	Bytes(identity string) int64
}

// Versions knows the versions of apps.
type Versions interface {
	Version(ctx context.Context, appName, id string) (*deploy.Version, error)
}

// Options are what the calls stand on. Versions and Events are nil where none are kept.
type Options struct {
	Databases Databases
	// Manifests are those of the versions that run.
	Manifests func() []*app.Manifest
	Versions  Versions
	Events    reach.Events
	Log       *slog.Logger
}

// Codes of faults.
const (
	codeUnknown   = "d1_unknown"
	codeStatement = "d1_statement"
)

// eventExecuted is the kind of event that a call leaves which changed something.
const eventExecuted = "d1.executed"

type calls struct{ Options }

// AppQuery is the input of a call about the D1 databases of an app.
type AppQuery struct {
	endpoint.AppPath

	Version string `query:"version" doc:"The id of a version, which need not be live. By default it is the one that runs."`
}

// DatabasePath is the input of a call about one of them.
type DatabasePath struct {
	AppQuery

	Database string `path:"database" maxLength:"255" doc:"Its name, binding or id."`
}

// Register has a door answer the calls.
func Register(d *endpoint.Door, o Options) {
	c := &calls{o}
	tags := []string{"D1"}
	endpoint.Call(d, access.Read, huma.Operation{
		OperationID: "list-d1-databases", Method: http.MethodGet, Path: "/v1/apps/{app}/d1", Summary: "List the D1 databases of an app", Tags: tags,
	}, c.list)
	endpoint.Call(d, access.Read, huma.Operation{
		OperationID: "query-d1-database", Method: http.MethodPost, Path: "/v1/apps/{app}/d1/{database}/query", Summary: "Run SQL in a D1 database",
		Tags: tags, MaxBodyBytes: queue.D1RequestBytes,
		Description: "The statements are one transaction, of which nothing is left when one fails; the field statement of the error says which. " +
			"With the role read they may only read; what writes needs the role deploy.",
	}, c.query)
	endpoint.Call(d, access.Read, huma.Operation{
		OperationID: "list-d1-migrations", Method: http.MethodGet, Path: "/v1/apps/{app}/d1/{database}/migrations",
		Summary: "List the migrations that were applied to a D1 database", Tags: tags,
	}, c.migrations)
}

// declared are the databases of a version.
func (c *calls) declared(ctx context.Context, in *AppQuery) ([]app.D1Database, error) {
	if in.Version != "" && c.Versions != nil {
		v, err := c.Versions.Version(ctx, in.App, in.Version)
		if err != nil {
			return nil, err
		}
		return v.Manifest.D1Databases, nil
	}
	for _, m := range c.Manifests() {
		if m.Name == in.App {
			return m.D1Databases, nil
		}
	}
	return nil, fault.New(fault.NotFound, "app_not_running", "no app %q runs here", in.App).
		WithHint("`runlot ps` lists the apps; one that was uploaded runs when a version is deployed")
}

func (c *calls) find(ctx context.Context, in *DatabasePath) (*app.D1Database, error) {
	list, err := c.declared(ctx, &in.AppQuery)
	if err != nil {
		return nil, err
	}
	known := make([]string, len(list))
	for i := range list {
		if db := &list[i]; db.Name == in.Database || db.Binding == in.Database || db.ID == in.Database {
			return db, nil
		}
		known[i] = list[i].Name
	}
	unknown := fault.New(fault.NotFound, codeUnknown, "%s declares no D1 database %s", in.App, in.Database)
	if len(known) > 0 {
		unknown = unknown.WithHint("it declares %s", strings.Join(known, ", "))
	}
	return nil, unknown
}

func (c *calls) list(ctx context.Context, in *AppQuery) (*endpoint.List[client.D1Database], error) {
	list, err := c.declared(ctx, in)
	if err != nil {
		return nil, err
	}
	out := make([]client.D1Database, len(list))
	for i := range list {
		db := &list[i]
		out[i] = client.D1Database{
			Binding: db.Binding, Name: db.Name, ID: db.Identity(), Bytes: c.Databases.Bytes(db.Identity()), MigrationsTable: db.MigrationsTable,
		}
	}
	return endpoint.ListOf(out), nil
}

func (c *calls) migrations(ctx context.Context, in *DatabasePath) (*endpoint.List[client.D1Migration], error) {
	db, err := c.find(ctx, in)
	if err != nil {
		return nil, err
	}
	// Without files, all that it knows of are those that were applied.
	set := migrate.Set{Database: reader{c.Databases, db.Identity()}, Table: db.MigrationsTable, Files: noFiles{}}
	list, err := set.List(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]client.D1Migration, len(list))
	for i := range list {
		out[i] = client.D1Migration{Name: list[i].Name, Applied: list[i].Applied}
	}
	return endpoint.ListOf(out), nil
}

// noFiles is an empty folder.
type noFiles struct{}

func (noFiles) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// reader looks at one of the databases.
type reader struct {
	databases Databases
	identity  string
}

func (r reader) Run(ctx context.Context, queries []d1.Query) ([]d1.Result, error) {
	return r.databases.Look(ctx, r.identity, queries)
}

func (c *calls) query(ctx context.Context, in *struct {
	DatabasePath

	Body client.D1Query
},
) (*endpoint.Body[client.D1Results], error) {
	endpoint.TakeTime(ctx)
	db, err := c.find(ctx, &in.DatabasePath)
	if err != nil {
		return nil, err
	}
	queries, err := read(in.Body.Statements)
	if err != nil {
		return nil, err
	}
	run := c.Databases.Run
	if in.Body.ReadOnly || endpoint.Caller(ctx).Allow(access.Deploy, in.App) != nil {
		run = c.Databases.Look
	}
	results, err := run(ctx, db.Identity(), queries)
	if err != nil {
		return nil, failed(err)
	}
	c.note(ctx, in.App, db.Name, results)
	return endpoint.Answer(client.D1Results{Results: wire(results)}), nil
}

// failed says what a caller may see of an error.
func failed(err error) error {
	e, ok := errors.AsType[*d1.Error](err)
	if !ok {
		return err
	}
	kind := fault.Invalid
	switch e.Text {
	case d1.QueuedLong, d1.QueuedMany:
		kind = fault.Unavailable
	case d1.TooLate:
		kind = fault.Timeout
	case d1.Full:
		kind = fault.Limit
	case d1.ReadOnly:
		return fault.New(fault.Invalid, access.CodeForbidden, "%s", e.Text).WithHint("use a token with the role deploy, and no read_only").WithCause(err)
	}
	return fault.New(kind, codeStatement, "%s", e.Text).WithCause(err)
}

// note records a call that changed something.
func (c *calls) note(ctx context.Context, appName, database string, results []d1.Result) {
	changed, changes := false, int64(0)
	for i := range results {
		changed = changed || results[i].Meta.Changed
		changes += results[i].Meta.Changes
	}
	if !changed || c.Events == nil {
		return
	}
	e := &deploy.Event{
		At: time.Now().UTC().Truncate(time.Microsecond), Kind: eventExecuted, App: appName, Author: endpoint.Author(ctx),
		Detail: map[string]string{"name": database, "rows": strconv.FormatInt(changes, 10)},
	}
	if err := c.Events.AddEvent(context.WithoutCancel(ctx), e, queue.KeptEvents); err != nil {
		c.Log.Error("an event was not recorded", "kind", eventExecuted, "app", appName, "error", fault.Detail(err))
	}
}
