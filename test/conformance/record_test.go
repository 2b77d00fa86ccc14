package conformance_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/runlot/runlot/internal/core/queue"
)

// recordCases are the rules of what is kept of a batch.
func recordCases() []testCase { return []testCase{kept()} }

// kept reads the records of two batches in SQL: one that is settled in three ways, and the end of what was thrown at.
func kept() testCase {
	c := testCase{
		id: "record", rule: "every batch leaves a record in the queue's database, with the place of the error in the app's code and the fate of each message",
		source: guarantees + ", Records", app: "plan", queues: []string{"record"},
	}
	c.drive = func(r *run) {
		r.accept(sendBatch("record",
			body{N: "a", Do: []string{"ack"}}, body{N: "b", Do: []string{"retry=3600"}}, body{N: "c", Do: []string{"throw", "throw"}}))
		batches := r.batches(2)
		names := strings.NewReplacer()
		if len(batches[0].Messages) == 3 {
			m := batches[0].Messages
			names = strings.NewReplacer(m[0].ID, m[0].name(), m[1].ID, m[1].name(), m[2].ID, m[2].name())
		}
		rows := r.selected(2, `SELECT array_to_string(ARRAY[outcome, app, coalesce(error, ''), coalesce(error_location, ''),
				format('delivered %s acked %s retried %s redelivered %s dead %s dropped %s', delivered, acked, retried, redelivered, dead, dropped)], ', ')
			FROM runlot_queue.batches WHERE queue = 'record' ORDER BY recorded_at`)
		r.fact("batches", strings.Join(rows, "\n"))
		rows = r.selected(3, `SELECT format('%s %s at %s in %s', f.message, f.fate, f.attempt, f.delay)
			FROM runlot_queue.batch_fates f JOIN runlot_queue.batches b ON b.id = f.batch WHERE f.queue = 'record' ORDER BY b.recorded_at, f.message`)
		r.fact("fates", names.Replace(strings.Join(rows, "\n")))
	}
	c.check = func(o *observation) error {
		want := map[string]string{
			// What was thrown, and where, is as it was told: settle-error is about that.
			"batches": fmt.Sprintf("failed, plan, %s, %s, delivered 3 acked 1 retried 2 redelivered 0 dead 0 dropped 0\n"+
				"failed, plan, %s, %s, delivered 1 acked 0 retried 0 redelivered 0 dead 1 dropped 0",
				o.Batches[0].Error, o.Batches[0].Location, o.Batches[1].Error, o.Batches[1].Location),
			"fates": "b retried at 1 in 01:00:00\nc retried at 1 in 00:00:00\nc dead at 2 in 00:00:00",
		}
		if diff := cmp.Diff(want, o.Facts); diff != "" {
			return errors.New(diff)
		}
		return nil
	}
	replace := func(name, fact, old, by string) wrong {
		return changes(name, func(o *observation) { o.Facts[fact] = strings.Replace(o.Facts[fact], old, by, 1) })
	}
	c.wrong = []wrong{
		replace("a failure is kept as a success", "batches", "failed", "ok"),
		replace("another error is kept", "batches", "plan, ", "plan, Error: other"),
		replace("another place is kept", "batches", ", delivered", "0, delivered"),
		replace("a dead letter is kept as a retry", "fates", "dead", "retried"),
		replace("the wait is not kept", "fates", "01:00:00", "00:00:00"),
		changes("only the last batch is kept", func(o *observation) { _, o.Facts["batches"], _ = strings.Cut(o.Facts["batches"], "\n") }),
	}
	return c
}

// selected waits until a query in the case's database returns this many rows, each a text.
func (r *run) selected(count int, sql string) []string {
	r.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		rows, err := r.database().Query(r.Context(), sql)
		if err != nil {
			r.Fatal(err)
		}
		list, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			r.Fatal(err)
		}
		if len(list) >= count {
			return list
		}
		select {
		case <-tick.C:
		case <-deadline:
			r.Fatalf("%d rows, %d are wanted: %q", len(list), count, list)
		}
	}
}

// line is a record of a batch in short.
func line(queueName string, outcome any, app, version, thrown string, counts ...int) string {
	return fmt.Sprint(queueName, " ", outcome, " ", app, " ", version, " ", counts, " ", thrown)
}

// everyBatchIsKept compares what the development daemon told of its batches, in all cases, with what its databases keep.
func everyBatchIsKept(t *testing.T, h *house) {
	h.development.mu.Lock()
	records := slices.Clone(h.development.records)
	h.development.mu.Unlock()
	want, outcomes := map[string]string{}, map[queue.Outcome]int{}
	for i := range records {
		b := &records[i]
		outcomes[b.Outcome]++
		thrown := ""
		if b.Error != nil {
			thrown = b.Error.Name + ": " + b.Error.Message + " " + b.Error.Location
		}
		want[b.Delivery] = line(b.Queue, b.Outcome, b.App, b.Version, thrown, b.Delivered, b.Acked, b.Retried, b.Redelivered, b.Dead, b.Dropped)
	}
	for _, o := range []queue.Outcome{queue.OK, queue.Failed, queue.TimedOut, queue.Lost} {
		if outcomes[o] == 0 {
			t.Errorf("no batch of the cases ended as %s", o)
		}
	}
	deadline := time.After(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		got := map[string]string{}
		logged := 0
		for _, db := range h.databases {
			rows, err := db.Query(t.Context(), `SELECT delivery, queue, outcome, app, version, delivered, acked, retried, redelivered, dead, dropped,
				coalesce(jsonb_array_length(logs), 0), coalesce(error || ' ' || error_location, '')
				FROM runlot_queue.batches`)
			if err != nil {
				t.Fatal(err)
			}
			var delivery, queueName, outcome, app, version, thrown string
			var n [6]int
			var lines int
			_, err = pgx.ForEachRow(rows, []any{&delivery, &queueName, &outcome, &app, &version, &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &lines, &thrown}, func() error {
				if _, told := want[delivery]; told {
					logged += lines
					got[delivery] = line(queueName, outcome, app, version, thrown, n[:]...)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		diff := cmp.Diff(want, got)
		if diff == "" {
			t.Logf("%d batches: %v", len(want), outcomes)
			// A line that comes late, as on a busy machine, is not kept; of so many batches some are in time.
			if logged == 0 {
				t.Error("no record has a line of what its handler logged")
			}
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("what is kept differs from what was told (-told +kept):\n%s", diff)
		}
	}
}
