package schema_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/adapter/postgres/schema"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(clustertest.Main(m)) }

const sendSQL = "SELECT runlot_queue.send($1, $2)"

// prepared makes a fresh database with the schema and the queue "jobs".
func prepared(t *testing.T) cluster.Access {
	t.Helper()
	access := clustertest.NewDatabase(t)
	config, err := session.Parse(access.OwnerURL())
	clustertest.Must(t, err)
	clustertest.Must(t, schema.Prepare(t.Context(), config, access.App.User))
	clustertest.Exec(t, clustertest.Connect(t, access.OwnerURL()), "INSERT INTO runlot_queue.queue (name) VALUES ('jobs')")
	return access
}

func TestRightsOfTheAppRole(t *testing.T) {
	access := prepared(t)
	app := clustertest.Connect(t, access.AppURL())
	clustertest.Exec(t, app, sendSQL, "jobs", "1")
	clustertest.Exec(t, app, "SELECT id, body FROM runlot_queue.messages")
	clustertest.Exec(t, app, "SELECT id, outcome FROM runlot_queue.batches")
	clustertest.Exec(t, app, "SELECT batch, message FROM runlot_queue.batch_fates")
	clustertest.Exec(t, app, "SELECT batch, message FROM runlot_queue.batch_acks")
	clustertest.Exec(t, app, "SELECT queue, minute FROM runlot_queue.minutes")
	for _, sql := range []string{
		"SELECT 1 FROM runlot_queue.message", "SELECT 1 FROM runlot_queue.inbox", "SELECT 1 FROM runlot_queue.queue",
		"SELECT 1 FROM runlot_queue.batch", "SELECT 1 FROM runlot_queue.batch_held", "SELECT 1 FROM runlot_queue.minute", "SELECT 1 FROM runlot_queue.minute_0", "DELETE FROM runlot_queue.batches",
		"SELECT 1 FROM runlot_queue.undo", "SELECT 1 FROM runlot_queue.owner", "SELECT 1 FROM runlot_queue.removed", "SELECT 1 FROM runlot_queue.schema_version",
		"SELECT 1 FROM runlot_queue.scheduler", "SELECT 1 FROM runlot_queue.cron", "SELECT 1 FROM runlot_queue.run",
		"INSERT INTO runlot_queue.inbox (sent_at, queue_id, body) VALUES (now(), 1, '1')",
		"DELETE FROM runlot_queue.messages", "UPDATE runlot_queue.owner SET epoch = 0", "TRUNCATE runlot_queue.message",
		"CREATE TABLE runlot_queue.mine ()", "DROP FUNCTION runlot_queue.send", "SELECT nextval('runlot_queue.inbox_id_seq')",
	} {
		_, err := app.Exec(t.Context(), sql)
		if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || (pg.Code != "42501" && pg.Code != "55000") {
			t.Errorf("%s: %v, want a refusal", sql, err)
		}
	}
	// The app's own search_path and its own objects do not reach into the functions.
	clustertest.Exec(t, app, `CREATE FUNCTION public.octet_length(bytea) RETURNS integer LANGUAGE sql AS 'SELECT 0';
		CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT ''-infinity''::timestamptz';
		SET search_path = public, pg_catalog`)
	clustertest.Exec(t, app, sendSQL, "jobs", "2")
	if clustertest.One[bool](t, app, "SELECT bool_or(sent_at < 'yesterday' OR size = 0) FROM runlot_queue.messages") {
		t.Error("a function of the app was called")
	}
	owner := clustertest.Connect(t, access.OwnerURL())
	if n := clustertest.One[int](t, owner, `SELECT count(*) FROM pg_proc p WHERE pronamespace = 'runlot_queue'::regnamespace
		AND (NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false) OR has_function_privilege('public', oid, 'EXECUTE'))`); n != 0 {
		t.Errorf("%d functions have an open search_path or are open to everybody", n)
	}
}

func TestConstraintsDefendTheStates(t *testing.T) {
	conn := clustertest.Connect(t, prepared(t).OwnerURL())
	const sql = `INSERT INTO runlot_queue.message (queue_id, seq, origin, sent_at, visible_at, failures, losses, format, body)
		SELECT 1, %s, %s, now(), %s, %s, %s, %s, %s`
	good := []any{"10", "NULL", "NULL", "0", "0", "1", "''"}
	clustertest.Exec(t, conn, fmt.Sprintf(sql, good...))
	for _, c := range []struct {
		place           int
		value, violates string
	}{
		{0, "10", "message_pkey"},
		{0, "0", "message_seq"},
		{1, "0", "message_seq"},
		{1, "11", "message_seq"},
		{3, "1", "message_retried"},
		{4, "1", "message_retried"},
		{3, "-1", "message_retried"},
		{4, "-1", "message_retried"},
		{5, "0", "message_format"},
		{5, "5", "message_format"},
		{6, "convert_to(repeat('x', 131073), 'UTF8')", "message_size"},
	} {
		values := slices.Clone(good)
		values[0] = "11"
		values[c.place] = c.value
		_, err := conn.Exec(t.Context(), fmt.Sprintf(sql, values...))
		if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.ConstraintName != c.violates {
			t.Errorf("column %d = %s: %v, want a violation of %s", c.place, c.value, err, c.violates)
		}
	}
	for table, insert := range map[string]string{
		"queue": "INSERT INTO runlot_queue.queue (name) VALUES ('Bad')",
		"owner": "INSERT INTO runlot_queue.owner (store_id) VALUES (1)",
		"inbox": "INSERT INTO runlot_queue.inbox (sent_at, queue_id, body) VALUES (now(), 1, convert_to(repeat('x', 131073), 'UTF8'))",
	} {
		if _, err := conn.Exec(t.Context(), insert); err == nil {
			t.Errorf("%s: accepted %s", table, insert)
		}
	}
}

func TestEveryObjectIsExplained(t *testing.T) {
	const sql = `SELECT coalesce(array_agg(name), '{}') FROM (
		SELECT c.relname || coalesce('.' || a.attname, '') AS name
		FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND c.relkind IN ('r', 'v')
		WHERE c.relnamespace = 'runlot_queue'::regnamespace AND c.relkind IN ('r', 'v') AND c.relname <> 'schema_version'
			AND (a.attname IS NULL OR a.attname NOT IN ('singleton', 'id', 'name', 'created_at')) AND col_description(c.oid, a.attnum) IS NULL
		UNION ALL
		SELECT relname FROM pg_class WHERE relnamespace = 'runlot_queue'::regnamespace AND relkind IN ('r', 'v') AND relname <> 'schema_version'
			AND obj_description(oid, 'pg_class') IS NULL
		UNION ALL
		SELECT proname FROM pg_proc WHERE pronamespace = 'runlot_queue'::regnamespace AND obj_description(oid, 'pg_proc') IS NULL) missing`
	if missing := clustertest.One[[]string](t, clustertest.Connect(t, prepared(t).OwnerURL()), sql); len(missing) > 0 {
		t.Errorf("no comment on %v", missing)
	}
}
