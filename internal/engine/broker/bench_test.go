package broker_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/runlot/runlot/internal/adapter/memory"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker"
)

// BenchmarkThroughput sends, delivers and acknowledges in batches of 100 over the store in memory. One operation is one
// message.
func BenchmarkThroughput(b *testing.B) {
	for _, c := range []struct {
		name             string
		senders, perCall int
	}{
		{"sendBatch100", 8, 100},
		{"send", 20, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := benchRig(b)
			body := make([]byte, 200)
			drafts := make([]queue.Draft, c.perCall)
			for i := range drafts {
				drafts[i] = queue.Draft{Format: queue.Bytes, Body: body}
			}
			lane, err := r.Lane("a")
			if err != nil {
				b.Fatal(err)
			}
			ctx, stop := context.WithCancel(b.Context())
			var left, acked atomic.Int64
			left.Store(int64(b.N))
			b.ReportAllocs()
			b.ResetTimer()
			var all sync.WaitGroup
			for range c.senders {
				all.Go(func() {
					for left.Add(-int64(c.perCall)) > -int64(c.perCall) {
						if _, err := r.Send(ctx, "a", drafts); err != nil {
							b.Error(err)
							return
						}
						acked.Add(-int64(c.perCall))
					}
				})
			}
			consumed := make(chan struct{}, 1)
			var consumers sync.WaitGroup
			for range 4 {
				consumers.Go(func() {
					for {
						batch, err := lane.Next(ctx, 100, 0)
						if err != nil {
							return
						}
						n := int64(len(batch.Messages))
						decisions := make([]queue.Decision, n)
						for i := range decisions {
							decisions[i] = queue.Decision{Seq: batch.Messages[i].Seq, Verdict: queue.Ack}
						}
						lane.Settle(batch, decisions, "", func(error) {
							if acked.Add(n) >= 0 && left.Load() <= 0 {
								select {
								case consumed <- struct{}{}:
								default:
								}
							}
						})
					}
				})
			}
			all.Wait()
			for acked.Load() < 0 {
				<-consumed
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
			stop()
			consumers.Wait()
			lane.Close()
		})
	}
}

func benchRig(b *testing.B) *broker.Broker {
	b.Helper()
	r := broker.New(broker.Options{Store: memory.NewDatabase().Open()})
	if err := r.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := r.Declare(b.Context(), []string{"a"}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = r.Stop(context.Background()) })
	return r
}
