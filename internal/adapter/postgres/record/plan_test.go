package record_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/adapter/postgres/record/query"
)

// plan is a node of what EXPLAIN tells.
type plan struct {
	Node     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Index    string  `json:"Index Name"`
	Rows     float64 `json:"Actual Rows"`
	Loops    float64 `json:"Actual Loops"`
	Filtered float64 `json:"Rows Removed by Filter"`
	Plans    []plan
}

// read is how many records the plan reads, and by which indexes.
func (p *plan) read(indexes map[string]bool) float64 {
	rows := 0.0
	if strings.Contains(p.Node, "Scan") && (p.Relation == "batch" || strings.HasPrefix(p.Index, "batch_")) {
		rows += (p.Rows + p.Filtered) * p.Loops
		indexes[p.Index] = true
	}
	for i := range p.Plans {
		rows += p.Plans[i].read(indexes)
	}
	return rows
}

// TestStatementsReadWhatTheyNeed fills three queues with many records, prunes one, and counts what each
// statement reads to do its work.
func TestStatementsReadWhatTheyNeed(t *testing.T) {
	const each, gone = 20_000, 5_000
	access := clustertest.NewDatabase(t)
	s := open(t, access)
	declare(t, access, "jobs", "mail", "other")
	admin := connect(t, access.OwnerURL())
	exec(t, admin, `INSERT INTO runlot_queue.batch (number, started_at, duration, queue_id, delivered, acked, retried, redelivered, dead, dropped,
			expired, missed, outcome, app, version, delivery, acks)
		SELECT n, now(), 0, q.id, 1, 1, 0, 0, 0, 0, 0, 0, CASE WHEN n % 1000 = 0 THEN 2 ELSE 1 END, 'app', 'v', 'd', decode(repeat('00', 18), 'hex')
		FROM runlot_queue.queue q, generate_series(1, $1::int) n`, each)
	exec(t, admin, "INSERT INTO runlot_queue.batch_held SELECT 1, id, $1 FROM runlot_queue.queue", each)
	for {
		more, err := s.Prune(t.Context(), "jobs", each-gone, 0, 1_000)
		must(t, err)
		if !more {
			break
		}
	}

	conn, err := s.Pool().Acquire(t.Context())
	must(t, err)
	defer conn.Release()
	tx, err := conn.Begin(t.Context())
	must(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	q := query.New(tx)
	list := query.ListRecordsParams{ToNumber: math.MaxInt64, BeforeNumber: math.MaxInt64, MaxRows: 50, Queues: []string{}, Outcomes: []int16{}}
	trouble := query.ListTroubleParams(list)
	trouble.Outcomes = []int16{2}
	for _, c := range []struct {
		name  string
		call  func() error
		args  []any
		most  float64
		index string
	}{
		{
			name: "PruneRecords", most: 2 * 100, index: "batch_pkey",
			call: func() error {
				_, err := q.PruneRecords(t.Context(), query.PruneRecordsParams{QueueID: 1, Lowest: gone + 1, Before: 1, MaxRows: 1})
				return err
			},
			args: []any{1, gone + 1, each, 100},
		},
		{
			name: "ListRecords", most: 3 * 50, index: "batch_pkey",
			call: func() error { _, err := q.ListRecords(t.Context(), list); return err },
			args: []any{list.FromNumber, list.ToNumber, list.BeforeNumber, list.BeforeQueue, list.App, list.Outcomes, list.MaxRows, list.Queues},
		},
		{
			name: "ListTrouble", most: 3 * 20, index: "batch_trouble",
			call: func() error { _, err := q.ListTrouble(t.Context(), trouble); return err },
			args: []any{list.FromNumber, list.ToNumber, list.BeforeNumber, list.BeforeQueue, list.App, trouble.Outcomes, list.MaxRows, list.Queues},
		},
		{
			name: "SettledRecords", most: 50, index: "batch_pkey",
			call: func() error {
				_, err := q.SettledRecords(t.Context(), query.SettledRecordsParams{Queue: "jobs", BeforeNumber: each, MaxRows: 50})
				return err
			},
			args: []any{each, 50, "jobs"},
		},
		{
			name: "LastRecords", most: 3, index: "batch_pkey",
			call: func() error { _, err := q.LastRecords(t.Context()); return err },
		},
		{
			name: "GetRecord", most: 1, index: "batch_pkey",
			call: func() error {
				_, err := q.GetRecord(t.Context(), query.GetRecordParams{Queue: "jobs", Number: each})
				return err
			},
			args: []any{"jobs", each},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			must(t, c.call())
			var statement string
			must(t, tx.QueryRow(t.Context(), "SELECT statement FROM pg_prepared_statements WHERE statement LIKE '-- name: ' || $1 || ' %'", c.name).Scan(&statement))
			var text []byte
			must(t, tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+statement, c.args...).Scan(&text))
			var explained []struct{ Plan plan }
			must(t, json.Unmarshal(text, &explained))
			indexes := map[string]bool{}
			if rows := explained[0].Plan.read(indexes); rows > c.most || rows == 0 || fmt.Sprint(indexes) != fmt.Sprintf("map[%s:true]", c.index) {
				t.Errorf("%v records are read by %v, the most is %v by %s\n%s", rows, indexes, c.most, c.index, text)
			}
		})
	}
}
