package postgres_test

import (
	"errors"
	"net/url"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/runlot/runlot/internal/adapter/postgres"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/adapter/postgres/schema"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

func TestOpenTwiceAndAtOnce(t *testing.T) {
	d := newDatabase(t)
	done := make(chan error, 4)
	for range cap(done) {
		go func() {
			s, err := postgres.Open(t.Context(), d.options())
			if err == nil {
				err = errors.Join(s.Close(t.Context()), s.Close(t.Context()))
			}
			done <- err
		}()
	}
	for range cap(done) {
		clustertest.Must(t, <-done)
	}
}

func TestOpenRefuses(t *testing.T) {
	d := newDatabase(t)
	d.open(t)
	change := func(edit func(u *url.URL)) string {
		u, err := url.Parse(d.access.OwnerURL())
		clustertest.Must(t, err)
		edit(u)
		return u.String()
	}
	conn := d.connect(t)
	for _, c := range []struct {
		name, url, before, after string
		kind                     fault.Kind
		code                     string
	}{
		{name: "no URL", url: "postgres://%", kind: fault.Invalid, code: session.CodeDatabaseURL},
		{
			name: "wrong password", url: change(func(u *url.URL) { u.User = url.UserPassword(d.access.Owner.User, "wrong") }),
			kind: fault.Environment, code: session.CodeDatabaseURL,
		},
		{name: "no such database", url: change(func(u *url.URL) { u.Path = "/none" }), kind: fault.Environment, code: session.CodeDatabaseURL},
		{
			name: "nobody there", url: change(func(u *url.URL) { u.RawQuery = "host=/nowhere" }),
			kind: fault.Unavailable, code: session.CodeDatabaseUnavailable,
		},
		{
			name: "newer schema", url: d.access.OwnerURL(), kind: fault.Environment, code: schema.CodeNewer,
			before: "INSERT INTO runlot_queue.schema_version (version_id, is_applied) VALUES (9999, true)",
			after:  "DELETE FROM runlot_queue.schema_version WHERE version_id = 9999",
		},
		{name: "another role", url: d.access.AppURL(), kind: fault.Environment, code: session.CodeDatabaseRights},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.before != "" {
				clustertest.Exec(t, conn, c.before)
				defer clustertest.Exec(t, conn, c.after)
			}
			options := d.options()
			options.URL = c.url
			s, err := postgres.Open(t.Context(), options)
			if err == nil {
				_ = s.Close(t.Context())
			}
			if f := fault.From(err); f == nil || f.Kind != c.kind || f.Code != c.code {
				t.Errorf("%s, want a fault of kind %s with code %s", fault.Detail(err), c.kind, c.code)
			}
		})
	}
}

// A database that switches synchronous_commit off for its sessions does not switch it off for the store's.
func TestCommitsAreSynchronous(t *testing.T) {
	d := newDatabase(t)
	conn := d.connect(t)
	clustertest.Exec(t, conn, "ALTER ROLE "+pgx.Identifier{d.access.Owner.User}.Sanitize()+" SET synchronous_commit = off")
	o := &owner{Store: d.open(t), d: d}
	o.acquire(t)
	clustertest.Must(t, o.Append(t.Context(), o.rows(1), nil))
	clustertest.Exec(t, conn, `CREATE TABLE runlot_queue.witness (setting text);
		CREATE FUNCTION runlot_queue.witness() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN INSERT INTO runlot_queue.witness VALUES (current_setting(''synchronous_commit'')); RETURN NULL; END';
		CREATE TRIGGER witness AFTER INSERT OR DELETE ON runlot_queue.message EXECUTE FUNCTION runlot_queue.witness()`)
	rows := o.rows(1)
	clustertest.Must(t, o.Append(t.Context(), rows, nil))
	clustertest.Must(t, o.Apply(t.Context(), &store.Change{Delete: keysOf(rows)}))
	if got := clustertest.One[[]string](t, conn, "SELECT array_agg(setting) FROM runlot_queue.witness"); !slices.Equal(got, []string{"on", "on"}) {
		t.Errorf("writes ran with synchronous_commit %v", got)
	}
}

// TestANodeDoesNotWaitForEver: an ownership that another node keeps is refused after a while, with the way out.
func TestANodeDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	_, err := d.open(t).Acquire(t.Context())
	clustertest.Must(t, err)
	_, err = d.open(t).Acquire(t.Context())
	if f := fault.From(err); f == nil || f.Code != "database_held" || f.Kind != fault.Unavailable || f.Hint == "" {
		t.Errorf("%v", err)
	}
}
