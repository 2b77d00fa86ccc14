package dispatch_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/dispatch"
)

// endless is a lane that always has a full batch ready and commits at once.
type endless struct {
	left     int
	messages []queue.Message
	commits  chan func(error)
	end      chan struct{}
}

func (l *endless) Next(ctx context.Context, _ int, _ time.Duration) (*queue.Batch, error) {
	if l.left == 0 {
		close(l.end)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	l.left--
	return &queue.Batch{Queue: "jobs", Messages: l.messages}, nil
}

func (*endless) Held(*queue.Batch, *queue.Holder) {}

func (l *endless) Settle(_ *queue.Batch, _ []queue.Decision, _ string, done func(error)) {
	l.commits <- done
}

func (l *endless) Ready() int64 { return int64(l.left) }

type ignore struct{}

func (ignore) Batch(*dispatch.Record) {}

// BenchmarkDispatch measures Next → Deliver (no-op) → Settle in batches of 100.
func BenchmarkDispatch(b *testing.B) {
	const size = 100
	l := &endless{left: b.N/size + 1, messages: make([]queue.Message, size), commits: make(chan func(error), 1024), end: make(chan struct{})}
	for i := range l.messages {
		l.messages[i] = queue.Message{Seq: int64(i), Body: make([]byte, 200)}
	}
	go func() {
		for done := range l.commits {
			done(nil)
		}
	}()
	c := consumer()
	c.MaxConcurrency, c.BatchSize = 0, size
	d := dispatch.New(dispatch.Options{App: "app", Consumer: c, Lane: l, Recorder: ignore{}, Log: slog.New(slog.DiscardHandler)})
	b.ReportAllocs()
	b.ResetTimer()
	d.Start(b.Context())
	d.SetRuntime(newRuntime(lasting(0, queue.OK)), "v1")
	<-l.end
	if err := d.Stop(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	close(l.commits)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}
