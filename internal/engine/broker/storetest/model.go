package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/trace"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// model is what a store has to hold: the rows of two queues, by key.
type model struct {
	t      *testing.T
	store  store.Store
	queues []store.QueueInfo
	next   *int64
	rows   map[store.Key]store.Row
	gone   []store.Key
}

// testModel carries out random sequences of writes on the store and on a map, and compares what both then read.
func testModel(t *testing.T, s *Subject) {
	own := acquire(t, s.Store)
	check(t, s.Store.Reserve(t.Context(), own.NextSeq+10_000_000))
	next := own.NextSeq
	var round atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		n := round.Add(1)
		queues, err := s.Store.Declare(t.Context(), []string{fmt.Sprintf("a%d", n), fmt.Sprintf("b%d", n)})
		if err != nil {
			rt.Fatal(err)
		}
		m := &model{t: t, store: s.Store, queues: queues, next: &next, rows: map[store.Key]store.Row{}}
		rt.Repeat(map[string]func(*rapid.T){
			"append": m.appendRows, "apply": m.apply, "expire": m.expire, "compare": m.compare,
		})
		m.compare(rt)
	})
}

func (m *model) seq() int64 {
	*m.next++
	return *m.next
}

func (m *model) queue(rt *rapid.T) int32 { return rapid.SampledFrom(m.queues).Draw(rt, "queue").ID }

func (m *model) appendRows(rt *rapid.T) {
	n := rapid.SampledFrom([]int{1, 3, 80}).Draw(rt, "rows")
	rows := make([]store.Row, n)
	for i := range rows {
		r := store.Row{
			Queue: m.queue(rt), Seq: m.seq(), Format: queue.Format(1 + i%4), SentAt: int64(1_000 + i),
			Body: rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(rt, "body"),
		}
		if rapid.Bool().Draw(rt, "delayed") {
			r.VisibleAt = rapid.Int64Range(1, 50).Draw(rt, "visible at")
		}
		if rapid.Bool().Draw(rt, "traced") {
			r.Trace = &trace.Context{TraceID: [16]byte{15: byte(i + 1)}, SpanID: [8]byte{7: 1}, Flags: trace.Sampled}
		}
		rows[i] = r
	}
	if err := m.store.Append(m.t.Context(), rows, nil); err != nil {
		rt.Fatal(err)
	}
	for _, r := range rows {
		m.rows[store.Key{Queue: r.Queue, Seq: r.Seq}] = r
	}
}

// apply settles some of the messages, and some that are gone.
func (m *model) apply(rt *rapid.T) {
	var change store.Change
	for _, k := range m.keys() {
		switch rapid.SampledFrom([]string{"keep", "keep", "keep", "delete", "retry", "move"}).Draw(rt, "fate") {
		case "delete":
			change.Delete = append(change.Delete, k)
			m.drop(k)
		case "retry":
			r := m.rows[k]
			r.Failures, r.Losses, r.VisibleAt = r.Failures+1, rapid.Int16Range(0, 3).Draw(rt, "losses"), rapid.Int64Range(1, 50).Draw(rt, "visible at")
			m.rows[k] = r
			change.Retry = append(change.Retry, store.Retry{Key: k, Failures: r.Failures, Losses: r.Losses, VisibleAt: r.VisibleAt})
		case "move":
			r := m.rows[k]
			m.drop(k)
			to := store.Key{Queue: m.queue(rt), Seq: m.seq()}
			change.Move = append(change.Move, store.Move{From: k, To: to})
			r.Origin = cmp.Or(r.Origin, r.Seq)
			r.Queue, r.Seq, r.Failures, r.Losses, r.VisibleAt = to.Queue, to.Seq, 0, 0, 0
			m.rows[to] = r
		}
	}
	for _, k := range m.gone[max(0, len(m.gone)-3):] {
		change.Retry = append(change.Retry, store.Retry{Key: k, Failures: 1, VisibleAt: 1})
	}
	if err := m.store.Apply(m.t.Context(), &change); err != nil {
		rt.Fatal(err)
	}
}

func (m *model) expire(rt *rapid.T) {
	id := m.queue(rt)
	limit := rapid.IntRange(1, 20).Draw(rt, "limit")
	var want []store.Expired
	for _, k := range m.keys() {
		if k.Queue == id && len(want) < limit {
			want = append(want, store.Expired{Seq: k.Seq, Bytes: len(m.rows[k].Body)})
			m.drop(k)
		}
	}
	got, err := m.store.Expire(m.t.Context(), id, 0, endOfSeq, limit)
	if err != nil {
		rt.Fatal(err)
	}
	if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		rt.Fatalf("expired (-want +got):\n%s", diff)
	}
}

func (m *model) drop(k store.Key) {
	delete(m.rows, k)
	m.gone = append(m.gone, k)
}

// keys returns the keys in order of Seq, so that a sequence of draws can be repeated.
func (m *model) keys() []store.Key {
	list := make([]store.Key, 0, len(m.rows))
	for k := range m.rows {
		list = append(list, k)
	}
	slices.SortFunc(list, func(a, b store.Key) int { return cmp.Compare(a.Seq, b.Seq) })
	return list
}

// compare reads both queues in small steps.
func (m *model) compare(rt *rapid.T) {
	for _, q := range m.queues {
		var ready, due []store.Row
		for _, k := range m.keys() {
			switch r := m.rows[k]; {
			case r.Queue != q.ID:
			case r.VisibleAt == 0:
				ready = append(ready, r)
			default:
				due = append(due, r)
			}
		}
		slices.SortStableFunc(due, func(a, b store.Row) int { return cmp.Compare(a.VisibleAt, b.VisibleAt) })
		m.compareReady(rt, q.ID, ready)
		m.compareDue(rt, q.ID, due)
	}
}

func (m *model) compareReady(rt *rapid.T, id int32, want []store.Row) {
	var got []store.Row
	for after := int64(0); ; after = got[len(got)-1].Seq {
		rows, err := m.store.ReadReady(m.t.Context(), id, after, endOfSeq, 40, 300)
		if err != nil {
			rt.Fatal(err)
		}
		if len(rows) == 0 {
			break
		}
		got = append(got, rows...)
	}
	if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		rt.Fatalf("ready (-want +got):\n%s", diff)
	}
}

func (m *model) compareDue(rt *rapid.T, id int32, want []store.Row) {
	var got []store.Row
	for after := (store.Due{}); ; {
		rows, err := m.store.ReadDue(m.t.Context(), id, after, endOfTime, 40, 300)
		if err != nil {
			rt.Fatal(err)
		}
		if len(rows) == 0 {
			break
		}
		got = append(got, rows...)
		last := rows[len(rows)-1]
		after = store.Due{VisibleAt: last.VisibleAt, Seq: last.Seq}
	}
	if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		rt.Fatalf("due (-want +got):\n%s", diff)
	}
}
