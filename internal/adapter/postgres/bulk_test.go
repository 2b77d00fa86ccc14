package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/core/filter"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/broker/look"
	"github.com/runlot/runlot/internal/engine/broker/operate"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// A search and a bulk deletion over 200,000 messages while other queues are delivered and a consumer settles the same messages:
// each message is deleted or acked, none is both, and none is left of those that match. The rate of the other queue with and
// without the search is told.
func TestBulkBesideDelivery(t *testing.T) {
	d := newDatabase(t)
	s := d.open(t)
	own, err := s.Acquire(t.Context())
	clustertest.Must(t, err)
	queues, err := s.Declare(t.Context(), []string{"jobs", "live"})
	clustertest.Must(t, err)
	const total, matching = 200_000, 50_000
	first := max(own.NextSeq, store.SeqAt(time.Now()))
	clustertest.Must(t, s.Reserve(t.Context(), first+2*total))
	clustertest.Exec(t, d.connect(t), `INSERT INTO runlot_queue.message (seq, sent_at, queue_id, failures, losses, format, body)
		SELECT $1::bigint + n, now(), $2, 0, 0, 1, convert_to(jsonb_build_object('n', n, 'user', jsonb_build_object('id', n % 4), 'pad', repeat('x', 150))::text, 'UTF8')
		FROM generate_series(0, $3::int - 1) AS s (n)`, first, queues[0].ID, total)
	b := broker.New(broker.Options{Store: s})
	clustertest.Must(t, b.Start(t.Context()))
	defer func() { clustertest.Must(t, b.Stop(context.Background())) }()
	f, err := filter.Parse("body.user.id:3 -absent")
	clustertest.Must(t, err)

	alone := liveRate(t, b)
	stop, looked := make(chan struct{}), atomic.Int64{}
	var searching sync.WaitGroup
	searching.Go(func() {
		for cursor := ""; ; {
			select {
			case <-stop:
				return
			default:
			}
			found, err := b.Search(context.Background(), "jobs", look.SearchOptions{Filter: f, Cursor: cursor, Rows: 1_000})
			if err != nil {
				t.Error(err)
				return
			}
			looked.Add(int64(found.Looked))
			cursor = found.Next
		}
	})
	beside := liveRate(t, b)
	close(stop)
	searching.Wait()
	t.Logf("%.0f messages/s alone, %.0f beside searches that looked at %d: %.0f %%", alone, beside, looked.Load(), 100*beside/alone)
	if looked.Load() == 0 {
		t.Error("the search looked at nothing meanwhile")
	}

	counted, err := b.Matching(t.Context(), "jobs", f, 0)
	clustertest.Must(t, err)
	if counted.Matched != queue.CountMatched || counted.Complete {
		t.Errorf("counted %+v", counted)
	}
	// A consumer acks what it gets of the same queue, until the deletion is at its end.
	ctx, cancel := context.WithCancel(t.Context())
	acked := map[queue.ID]bool{}
	matched := 0
	var consuming sync.WaitGroup
	lane, err := b.Lane("jobs")
	clustertest.Must(t, err)
	consuming.Go(func() {
		for {
			batch, err := lane.Next(ctx, 100, 0)
			if err != nil {
				return
			}
			decisions := make([]queue.Decision, len(batch.Messages))
			for i := range decisions {
				m := &batch.Messages[i]
				decisions[i] = queue.Decision{Seq: m.Seq, Verdict: queue.Ack}
				if acked[m.ID] {
					t.Errorf("%s came twice", m.ID)
				}
				acked[m.ID] = true
				if m.ID.Seq()-first >= 0 && (m.ID.Seq()-first)%4 == 3 {
					matched++
				}
			}
			done := make(chan error, 1)
			lane.Settle(batch, decisions, "", func(err error) { done <- err })
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
	run, err := b.Bulk(t.Context(), "jobs", operate.BulkOptions{Kind: operate.BulkDelete, Filter: f})
	clustertest.Must(t, err)
	deleted, skipped := int64(0), int64(0)
	for !run.Over() {
		done, err := run.Step(t.Context(), queue.OperateRows)
		clustertest.Must(t, err)
		deleted += done.Done
		skipped += done.InFlight + done.Missing
	}
	cancel()
	consuming.Wait()
	lane.Close()
	left := clustertest.One[int](t, d.connect(t), "SELECT count(*)::int FROM runlot_queue.message WHERE queue_id = $1", queues[0].ID)
	leftMatching := clustertest.One[int](t, d.connect(t), "SELECT count(*)::int FROM runlot_queue.message WHERE queue_id = $1 AND (seq - $2) % 4 = 3", queues[0].ID, first)
	if int(deleted)+matched+leftMatching != matching || int(deleted)+len(acked)+left != total || leftMatching > int(skipped) {
		t.Errorf("%d deleted, %d acked (%d of them match), %d left (%d match), %d skipped", deleted, len(acked), matched, left, leftMatching, skipped)
	}
	t.Logf("%d deleted, %d acked meanwhile, %d of them matched", deleted, len(acked), matched)
}

// liveRate sends messages to a queue of its own and delivers them, and returns how many a second.
func liveRate(t *testing.T, b *broker.Broker) float64 {
	t.Helper()
	const messages, senders, each = 60_000, 20, 100
	lane, err := b.Lane("live")
	clustertest.Must(t, err)
	defer lane.Close()
	began := time.Now()
	var sending sync.WaitGroup
	for range senders {
		sending.Go(func() {
			drafts := make([]queue.Draft, each)
			for i := range drafts {
				drafts[i] = queue.Draft{Format: queue.JSON, Body: fmt.Appendf(nil, `{"n":%d,"pad":"%0150d"}`, i, 0)}
			}
			for range messages / senders / each {
				if _, err := b.Send(context.Background(), "live", drafts); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var settling sync.WaitGroup
	for n := 0; n < messages; {
		batch, err := lane.Next(t.Context(), 100, 0)
		clustertest.Must(t, err)
		decisions := make([]queue.Decision, len(batch.Messages))
		for i := range decisions {
			decisions[i] = queue.Decision{Seq: batch.Messages[i].Seq, Verdict: queue.Ack}
		}
		settling.Add(1)
		lane.Settle(batch, decisions, "", func(err error) {
			if err != nil {
				t.Error(err)
			}
			settling.Done()
		})
		n += len(decisions)
	}
	settling.Wait()
	sending.Wait()
	return messages / time.Since(began).Seconds()
}
