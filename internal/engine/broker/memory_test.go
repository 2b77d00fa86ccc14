package broker_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/adapter/memory"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

const (
	vastReady   = 5_000_000
	vastDelayed = 100_000
	vastBody    = 200
	vastQueue   = 1 // the id that the store gives to the first queue
)

// vastStore is a store in whose first queue millions of messages wait. It makes them up as they are read and holds none,
// so that what the process holds is the broker's.
type vastStore struct {
	*memory.Store
	first    int64 // Seq of the first message
	firstDue int64 // when the first delayed message falls due; one follows in each millisecond
}

func (s *vastStore) Acquire(ctx context.Context) (store.Ownership, error) {
	own, err := s.Store.Acquire(ctx)
	if err != nil {
		return own, err
	}
	own.NextSeq = s.first + vastReady + vastDelayed
	_, err = s.Declare(ctx, []string{"a"})
	return own, err
}

func (s *vastStore) Snapshot(context.Context) (store.Snapshot, error) { return s, nil }
func (*vastStore) Close(context.Context) error                        { return nil }

func (s *vastStore) Counts(context.Context) (map[int32]store.Count, error) {
	const n = vastReady + vastDelayed
	return map[int32]store.Count{vastQueue: {Messages: n, Bytes: n * vastBody}}, nil
}

// Append takes everything and keeps nothing.
func (*vastStore) Append(context.Context, []store.Row, *store.Usage) error { return nil }

func (s *vastStore) row(number int64) store.Row {
	return store.Row{Queue: vastQueue, Seq: s.first + number, Format: queue.JSON, SentAt: s.first >> store.SeqBits, Body: make([]byte, vastBody)}
}

func (s *vastStore) ReadReady(_ context.Context, id int32, after, upTo int64, rows, bytes int) ([]store.Row, error) {
	var list []store.Row
	if id != vastQueue {
		return list, nil
	}
	last := min(upTo-s.first, vastReady-1)
	for n := max(after+1-s.first, 0); n <= last && len(list) < min(rows, bytes/vastBody); n++ {
		list = append(list, s.row(n))
	}
	return list, nil
}

func (s *vastStore) ReadDue(_ context.Context, id int32, after store.Due, upTo int64, rows, bytes int) ([]store.Row, error) {
	var list []store.Row
	if id != vastQueue {
		return list, nil
	}
	last := min(upTo-s.firstDue, vastDelayed-1)
	for n := max(after.VisibleAt+1-s.firstDue, 0); n <= last && len(list) < min(rows, bytes/vastBody); n++ {
		row := s.row(vastReady + n)
		row.VisibleAt = s.firstDue + n
		list = append(list, row)
	}
	return list, nil
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemoryIsBounded: while 5 million messages wait and 100,000 are delayed, the broker holds what its bounds allow,
// however many it has delivered and however many delayed ones are sent to it.
func TestMemoryIsBounded(t *testing.T) {
	s := &vastStore{
		Store: memory.NewDatabase().Open(), first: store.SeqAt(time.Now().Add(-time.Hour)),
		firstDue: time.Now().Add(time.Hour).UnixMilli(),
	}
	before := heap()
	b := broker.New(broker.Options{Store: s})
	check(t, b.Start(t.Context()))
	t.Cleanup(func() { check(t, b.Stop(context.Background())) })
	<-b.Counted()
	m, err := b.Metrics(t.Context(), "a")
	check(t, err)
	if m.Count != vastReady+vastDelayed {
		t.Fatalf("%d messages wait, want %d", m.Count, vastReady+vastDelayed)
	}
	l, err := b.Lane("a")
	check(t, err)
	// Twice the window of a queue leaves room for the read under way and the settlements on their way.
	const most = 2 * queue.LaneBytes
	delivered := 0
	for range 20 {
		for range 100 {
			batch, err := l.Next(t.Context(), queue.MaxBatchSize, 0)
			check(t, err)
			delivered += len(batch.Messages)
			ack(t, l, batch)
		}
		for range 50 {
			delayed := make([]queue.Draft, queue.MaxSendBatch)
			for i := range delayed {
				delay := 30 * time.Minute
				delayed[i] = queue.Draft{Format: queue.JSON, Body: make([]byte, vastBody), Delay: &delay}
			}
			_, err := b.Send(t.Context(), "a", delayed)
			check(t, err)
		}
		if held := heap() - before; held > most {
			t.Fatalf("%d bytes are held after %d of %d messages, want at most %d", held, delivered, vastReady, most)
		}
	}
	if delivered < 4*queue.LaneRows {
		t.Errorf("only %d messages came: the window was filled less than four times", delivered)
	}
}
