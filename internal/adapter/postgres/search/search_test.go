package search_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/runlot/runlot/internal/adapter/postgres"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/adapter/postgres/search"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/filter"
	"github.com/runlot/runlot/internal/core/filter/filtertest"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(clustertest.Main(m)) }

// open returns a searcher over a fresh database with the queues 1 to 3, and a connection to it.
func open(t *testing.T) (*search.Searcher, *pgx.Conn) {
	url := clustertest.NewDatabase(t).OwnerURL()
	s, err := postgres.Open(t.Context(), postgres.Options{URL: url, Log: slog.New(slog.DiscardHandler)})
	clustertest.Must(t, err)
	clustertest.Must(t, s.Close(t.Context()))
	config, err := session.Parse(url)
	clustertest.Must(t, err)
	found, err := search.Open(t.Context(), config)
	clustertest.Must(t, err)
	t.Cleanup(found.Close)
	conn := clustertest.Connect(t, url)
	clustertest.Exec(t, conn, `INSERT INTO runlot_queue.queue (name) VALUES ('mine'), ('jobs'), ('other')`)
	return found, conn
}

// What SQL says of a message, the evaluator in Go says too: random filters over random messages, many of which are no JSON or
// hardly.
func TestSQLAgreesWithTheEvaluator(t *testing.T) {
	s, conn := open(t)
	const messages = 3_000
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	subjects := make([]filter.Subject, messages)
	base := store.Search{
		UpTo: math.MaxInt64, Now: filtertest.Now, Database: 1, Sources: map[string]int32{"jobs": 2, "other": 3}, Rows: messages + 1, Bytes: math.MaxInt32,
	}
	rows := make([][]any, messages)
	for i := range subjects {
		m := filtertest.Subject(random.IntN)
		seq := int64(i + 1)
		m.ID = queue.NewID(1, seq)
		var visible *time.Time
		if m.Attempts > 0 || m.State == filter.Delayed || random.IntN(3) == 0 {
			at := time.UnixMilli(filtertest.Now - int64(random.IntN(2)))
			if m.State == filter.Delayed || m.State == filter.InFlight && random.IntN(2) == 0 {
				at = time.UnixMilli(filtertest.Now + 1)
			}
			visible = &at
		}
		if m.State == filter.InFlight {
			base.Flying = append(base.Flying, seq)
		}
		var source *int32
		var reason *string
		if id, ok := base.Sources[m.Source]; ok {
			source = &id
		}
		if m.Reason != "" {
			reason = &m.Reason
		}
		subjects[i] = m
		rows[i] = []any{seq, time.UnixMilli(m.SentAt), visible, int32(1), int16(m.Attempts), int16(0), int16(m.Format), m.Body, source, reason}
	}
	_, err := conn.CopyFrom(t.Context(), pgx.Identifier{"runlot_queue", "message"},
		[]string{"seq", "sent_at", "visible_at", "queue_id", "failures", "losses", "format", "body", "source_id", "reason"}, pgx.CopyFromRows(rows))
	clustertest.Must(t, err)
	matched := 0
	rapid.Check(t, func(rt *rapid.T) {
		q := base
		q.Filter = filtertest.Filter(func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "choice") })
		var want []store.Match
		for i := range subjects {
			if q.Filter.Match(&subjects[i], filtertest.Now) {
				want = append(want, store.Match{Seq: int64(i + 1), Accepted: int64(i + 1), Place: i + 1})
			}
		}
		found, err := s.Search(context.Background(), 1, &q)
		if err != nil {
			rt.Fatalf("%s: %s", q.Filter, fault.Detail(err))
		}
		matched += len(want)
		if diff := cmp.Diff(want, found.Matches); diff != "" {
			for i := range subjects {
				in := false
				for _, m := range found.Matches {
					in = in || m.Seq == int64(i+1)
				}
				if in != q.Filter.Match(&subjects[i], filtertest.Now) {
					rt.Fatalf("%s on %+v %q: %t in SQL", q.Filter, subjects[i], subjects[i].Body, in)
				}
			}
			rt.Fatalf("%s (-Go +SQL):\n%s", q.Filter, diff)
		}
	})
	if matched == 0 {
		t.Error("no filter matched any message")
	}
}

// A step is bounded in rows and in bytes, goes on behind any message, and looks at single ones.
func TestSteps(t *testing.T) {
	s, conn := open(t)
	for i := range 10 {
		clustertest.Exec(t, conn, `INSERT INTO runlot_queue.message (seq, origin, sent_at, queue_id, failures, losses, format, body) VALUES ($1, $2, now(), 1, 0, 0, 1, $3)`,
			int64(100+i), int64(1+i), fmt.Appendf(nil, `{"n":%d,"text":"%0*d"}`, i, 1_000, 0))
	}
	step := func(text string, change func(q *store.Search)) store.Searched {
		t.Helper()
		f, err := filter.Parse(text)
		clustertest.Must(t, err)
		q := store.Search{Filter: f, UpTo: math.MaxInt64, Now: time.Now().UnixMilli(), Rows: 100, Bytes: 1 << 20}
		change(&q)
		found, err := s.Search(t.Context(), 1, &q)
		clustertest.Must(t, err)
		return found
	}
	seventh := []store.Match{{Seq: 107, Accepted: 8, Place: 3}}
	for name, c := range map[string]struct {
		filter string
		change func(q *store.Search)
		want   store.Searched
	}{
		"rows":      {"body.n:7", func(q *store.Search) { q.Rows, q.After = 4, 104 }, store.Searched{Looked: 4, Last: 108, More: true, Matches: seventh}},
		"bytes":     {"body.n:7", func(q *store.Search) { q.Bytes, q.After = 3_000, 104 }, store.Searched{Looked: 3, Last: 107, More: true, Matches: seventh}},
		"no bytes":  {"size<10", func(q *store.Search) { q.Bytes, q.After = 3_000, 104 }, store.Searched{Looked: 5, Last: 109}},
		"one large": {"body.n:7", func(q *store.Search) { q.Bytes = 1 }, store.Searched{Looked: 1, Last: 100, More: true}},
		"up to":     {"body.n:7", func(q *store.Search) { q.After, q.UpTo = 104, 107 }, store.Searched{Looked: 3, Last: 107, Matches: seventh}},
		"only":      {"", func(q *store.Search) { q.Only = []int64{3, 101, 107, 500} }, store.Searched{Looked: 2, Last: 107, Matches: []store.Match{{Seq: 101, Accepted: 2, Place: 1}, {Seq: 107, Accepted: 8, Place: 2}}}},
		"none":      {"", func(q *store.Search) { q.Only = []int64{} }, store.Searched{}},
		"the end":   {"", func(q *store.Search) { q.After = 109 }, store.Searched{}},
	} {
		if diff := cmp.Diff(c.want, step(c.filter, c.change)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
