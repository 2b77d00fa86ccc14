package d1

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/d1"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// Databases are the D1 databases of a node, by identity.
type Databases interface {
	// Run runs queries as one transaction, and Look those that only read. What the caller may see of a failure is a d1.Error.
	Run(ctx context.Context, identity string, queries []d1.Query) ([]d1.Result, error)
	Look(ctx context.Context, identity string, queries []d1.Query) ([]d1.Result, error)
	// Bytes is the size of a database; 0 when it does not exist.
	Bytes(identity string) int64
	// Dumpable refuses a database that has no form as SQL; Dump writes it as SQL, as it is between two calls.
	Dumpable(ctx context.Context, identity string) error
	Dump(ctx context.Context, identity string, o *d1.Dump, w io.Writer) error
	// Remove deletes a database that nobody uses.
	Remove(ctx context.Context, identity string) error
	// Identities are those of the databases that were used, as far as their files tell.
	Identities() ([]string, error)
}

// Events keeps what was done; deploy.Store is one.
type Events interface {
	AddEvent(ctx context.Context, e *deploy.Event, keep int) error
}

// Options are what the calls stand on; all fields are required.
type Options struct {
	Databases Databases
	// Encode writes results as JSON, for each statement its rows as objects, and its meta.
	Encode func(results []d1.Result) []byte
	// Running are the manifests of the versions that run.
	Running func() []*app.Manifest
	Events  Events
	Log     *slog.Logger
}

type service struct {
	o     Options
	slots *slots
}

// Register adds the calls to a router.
func Register(r *wire.Router, o Options) {
	s := &service{o, newSlots()}
	s.registerTransfers(r)
	const all, one = wire.Account + "/d1/database", wire.Account + "/d1/database/{database}"
	r.Handle("GET "+all, access.Read, s.list)
	r.Handle("POST "+all, access.Deploy, s.create)
	r.Handle("GET "+one, access.Read, s.get)
	r.Handle("DELETE "+one, access.Deploy, s.remove)
	r.HandleLarge("POST "+one+"/query", access.Read, queue.D1RequestBytes, s.query)
}

// database is one that there is.
type database struct {
	name, identity string
	tables         int
	bytes          int64
	app            string // which declares it; "" for none
}

// wire is a database in Cloudflare's shape.
func (d *database) wire() map[string]any {
	return map[string]any{"uuid": d.identity, "name": d.name, "version": "production", "created_at": "", "num_tables": d.tables, "file_size": d.bytes}
}

// databases are those that a token may see: those of its app, or all.
func (s *service) databases(t *access.Token) ([]database, error) {
	var list []database
	known := map[string]bool{}
	add := func(d database) {
		if !known[d.identity] {
			known[d.identity] = true
			d.bytes = s.o.Databases.Bytes(d.identity)
			list = append(list, d)
		}
	}
	for _, m := range s.o.Running() {
		for i := range m.D1Databases {
			if t.App == "" || t.App == m.Name {
				add(database{name: m.D1Databases[i].Name, identity: m.D1Databases[i].Identity(), app: m.Name})
			}
		}
	}
	if t.App == "" {
		others, err := s.o.Databases.Identities()
		if err != nil {
			return nil, err
		}
		for _, identity := range others {
			add(database{name: identity, identity: identity})
		}
	}
	slices.SortFunc(list, func(a, b database) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.identity, b.identity))
	})
	return list, nil
}

// find finds the database of a call by its id or its name.
func (s *service) find(c *wire.Call) (*database, error) {
	list, err := s.databases(c.Token)
	if err != nil {
		return nil, err
	}
	given := c.PathValue("database")
	for _, is := range []func(d database) bool{
		func(d database) bool { return d.identity == given },
		func(d database) bool { return d.name == given },
	} {
		if at := slices.IndexFunc(list, is); at >= 0 {
			return &list[at], nil
		}
	}
	return nil, fault.New(fault.NotFound, wire.CodeD1Unknown, "there is no D1 database %s", given).
		WithHint("deploy a script that declares it, or create it with `wrangler d1 create %s`", given)
}

func (s *service) list(w http.ResponseWriter, c *wire.Call) error {
	list, err := s.databases(c.Token)
	if err != nil {
		return err
	}
	out := []map[string]any{}
	for i := range list {
		if name := c.URL.Query().Get("name"); name == "" || strings.Contains(list[i].name, name) {
			if err := s.count(c.Context(), &list[i]); err != nil {
				return err
			}
			out = append(out, list[i].wire())
		}
	}
	wire.List(w, c, out)
	return nil
}

// count counts the tables of a database.
func (s *service) count(ctx context.Context, d *database) error {
	if d.bytes == 0 {
		return nil
	}
	results, err := s.o.Databases.Look(ctx, d.identity, []d1.Query{{SQL: `select count(*) from sqlite_master where type = 'table' and name not like 'sqlite\_%' escape '\' and name not like '\_cf\_%' escape '\'`}})
	if err != nil {
		return failed(err)
	}
	n, _ := results[0].Rows[0][0].(int64)
	d.tables = int(n)
	return nil
}

func (s *service) get(w http.ResponseWriter, c *wire.Call) error {
	d, err := s.find(c)
	if err != nil {
		return err
	}
	if err := s.count(c.Context(), d); err != nil {
		return err
	}
	wire.Answer(w, d.wire())
	return nil
}

// create makes a database that no app declares yet. Its name is also its id.
func (s *service) create(w http.ResponseWriter, c *wire.Call) error {
	in, err := wire.Body[struct{ Name string }](c)
	if err != nil {
		return err
	}
	if c.Token.App != "" {
		return fault.New(fault.Invalid, access.CodeForbidden, "the token %q is for the app %s only", c.Token.Name, c.Token.App).
			WithHint("use a token for the whole instance")
	}
	if !queue.ValidName(in.Name) {
		return fault.New(fault.Invalid, wire.CodeD1, "%q is no name of a D1 database", in.Name).WithHint("%s", strings.Replace(queue.NameRule, "a queue name", "it", 1))
	}
	list, err := s.databases(c.Token)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(list, func(d database) bool { return d.name == in.Name || d.identity == in.Name }) {
		return fault.New(fault.Conflict, wire.CodeD1Exists, "there is a D1 database %s already", in.Name).WithHint("`wrangler d1 list` lists them")
	}
	if _, err := s.o.Databases.Run(wire.Finished(c), in.Name, []d1.Query{{SQL: "select 1"}}); err != nil {
		return failed(err)
	}
	d := &database{name: in.Name, identity: in.Name, bytes: s.o.Databases.Bytes(in.Name)}
	s.note(c, "d1.created", d, nil)
	wire.Answer(w, d.wire())
	return nil
}

// remove deletes a database that no app declares.
func (s *service) remove(w http.ResponseWriter, c *wire.Call) error {
	d, err := s.find(c)
	if err != nil {
		return err
	}
	var users []string
	for _, m := range s.o.Running() {
		if slices.ContainsFunc(m.D1Databases, func(db app.D1Database) bool { return db.Identity() == d.identity }) {
			users = append(users, m.Name)
		}
	}
	if len(users) > 0 {
		return fault.New(fault.Conflict, wire.CodeD1, "the D1 database %s is in use: %s", d.name, strings.Join(users, ", ")).
			WithHint("deploy that without the database, or delete it, and try again")
	}
	if err := s.o.Databases.Remove(wire.Finished(c), d.identity); err != nil {
		return failed(err)
	}
	s.note(c, "d1.deleted", d, nil)
	wire.Answer(w, nil)
	return nil
}

// statement is SQL with its values.
type statement struct {
	SQL    string `json:"sql"`
	Params []any  `json:"params"`
}

// queries are those of a statement. A text of several without values is as many queries.
func (t *statement) queries() ([]d1.Query, error) {
	var values []d1.Value
	for i, p := range t.Params {
		switch p := p.(type) {
		case nil, float64, string:
			values = append(values, p)
		case bool:
			number := 0.0
			if p {
				number = 1
			}
			values = append(values, number)
		default:
			return nil, fault.New(fault.Invalid, wire.CodeD1, "value %d is neither null, a number, a string nor a boolean", i+1)
		}
	}
	if values != nil {
		return []d1.Query{{SQL: t.SQL, Params: values}}, nil
	}
	var list []d1.Query
	for _, one := range d1.WithoutTransaction(d1.Statements(t.SQL)) {
		list = append(list, d1.Query{SQL: one.Text})
	}
	return list, nil
}

// query runs SQL as one transaction, of which nothing is left when a statement fails. A token that may only read can.
func (s *service) query(w http.ResponseWriter, c *wire.Call) error {
	d, err := s.find(c)
	if err != nil {
		return err
	}
	in, err := wire.Body[struct {
		statement

		Batch []statement `json:"batch"`
	}](c)
	if err != nil {
		return err
	}
	var list []d1.Query
	for _, one := range append([]statement{in.statement}, in.Batch...) {
		more, err := one.queries()
		if err != nil {
			return err
		}
		list = append(list, more...)
	}
	if len(list) == 0 {
		return fault.New(fault.Invalid, wire.CodeD1, "%s", d1.NoStatement)
	}
	run := s.o.Databases.Run
	if c.Token.Allow(access.Deploy, c.Token.App) != nil {
		run = s.o.Databases.Look
	}
	results, err := run(c.Context(), d.identity, list)
	if err != nil {
		return failed(err)
	}
	changed, rows := false, int64(0)
	for i := range results {
		changed, rows = changed || results[i].Meta.Changed, rows+results[i].Meta.Changes
	}
	if changed {
		s.note(c, "d1.executed", d, map[string]string{"rows": strconv.FormatInt(rows, 10)})
	}
	wire.Answer(w, json.RawMessage(s.o.Encode(results)))
	return nil
}

// note records what was done.
func (s *service) note(c *wire.Call, kind string, d *database, detail map[string]string) {
	e := &deploy.Event{At: time.Now().UTC().Truncate(time.Microsecond), Kind: kind, App: d.app, Author: c.Token.Name, Detail: map[string]string{"name": d.name}}
	maps.Copy(e.Detail, detail)
	if err := s.o.Events.AddEvent(wire.Finished(c), e, queue.KeptEvents); err != nil {
		s.o.Log.Error("an event was not recorded", "kind", kind, "database", d.name, "error", fault.Detail(err))
	}
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
	case d1.ReadOnly:
		return fault.New(fault.Invalid, access.CodeForbidden, "%s", e.Text).WithHint("use a token with the role deploy").WithCause(err)
	}
	return fault.New(kind, wire.CodeD1, "%s", e.Text).WithCause(err)
}
