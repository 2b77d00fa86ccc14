package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/runlot/runlot/bench/report"
	"github.com/runlot/runlot/internal/core/queue"
)

const (
	// lowLoad is the time between two sends when latency is measured.
	lowLoad = 10 * time.Millisecond
	// answerTime is how long a message may take before it counts as lost.
	answerTime = 30 * time.Second
)

// times collects durations from several goroutines.
type times struct {
	mu   sync.Mutex
	list []float64
	// came gets a token for each.
	came chan struct{}
}

func newTimes(most int) *times { return &times{came: make(chan struct{}, most)} }

func (t *times) add(d time.Duration) {
	t.mu.Lock()
	t.list = append(t.list, float64(d)/float64(time.Millisecond))
	t.mu.Unlock()
	select {
	case t.came <- struct{}{}:
	default:
	}
}

// wait returns when n durations came.
func (t *times) wait(ctx context.Context, n int) error {
	limit := time.NewTimer(answerTime)
	defer limit.Stop()
	for range n {
		select {
		case <-t.came:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limit.C:
			return fmt.Errorf("not every message came back within %s", answerTime)
		}
	}
	return nil
}

func (b *bench) addLatency(name, note string, t *times) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, q := range []struct {
		name  string
		share float64
	}{{"p50", 0.5}, {"p99", 0.99}} {
		b.add(&report.Figure{Name: name + "-" + q.name, Value: report.Quantile(t.list, q.share), Unit: "ms", Note: note})
	}
}

// latencies is the time from send to handler at 100 messages a second.
func (b *bench) latencies(ctx context.Context) error {
	n := int(b.seconds * float64(b.rounds) * float64(time.Second/lowLoad))
	if b.wants("latency-engine") {
		b.progressf("latency of the engine")
		t, err := b.engineLatency(ctx, n)
		if err != nil {
			return err
		}
		b.addLatency("latency-engine", "from the call of Send to the return of Next, 100/s", t)
	}
	if b.wants("latency-workers") {
		b.progressf("latency through Workers")
		t, err := b.workerLatency(ctx, n)
		if err != nil {
			return err
		}
		b.addLatency("latency-workers", "from the HTTP request to the handler's own first request, 100/s", t)
	}
	return nil
}

func (b *bench) engineLatency(ctx context.Context, n int) (t *times, err error) {
	s, err := b.postgres(ctx)
	if err != nil {
		return nil, err
	}
	address, err := s.database(ctx)
	if err != nil {
		return nil, err
	}
	e, err := openEngine(ctx, s, address, jobs)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close(context.WithoutCancel(ctx))) }()
	lane, err := e.broker.Lane(jobs)
	if err != nil {
		return nil, err
	}
	defer lane.Close()
	t = newTimes(n)
	received := make(chan error, 1)
	go func() {
		for range n {
			batch, err := lane.Next(ctx, 1, 0)
			if err != nil {
				received <- err
				return
			}
			now := time.Now()
			m := &batch.Messages[0]
			sent, err := strconv.ParseInt(string(m.Body), 10, 64)
			if err != nil {
				received <- err
				return
			}
			t.add(now.Sub(time.Unix(0, sent)))
			lane.Settle(batch, []queue.Decision{{Seq: m.Seq, Verdict: queue.Ack}}, "", func(error) {})
		}
		received <- nil
	}()
	err = everyTick(ctx, n, func() error {
		body := strconv.AppendInt(nil, time.Now().UnixNano(), 10)
		_, err := e.broker.Send(ctx, jobs, []queue.Draft{{Format: queue.JSON, Body: body}})
		return err
	})
	if err != nil {
		return nil, err
	}
	return t, <-received
}

// everyTick calls f n times at the low load, each in a goroutine of its own, and waits for all.
func everyTick(ctx context.Context, n int, f func() error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	tick := time.NewTicker(lowLoad)
	defer tick.Stop()
	var calls sync.WaitGroup
	defer calls.Wait()
	for range n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		calls.Go(func() {
			if err := f(); err != nil {
				cancel(err)
			}
		})
	}
	calls.Wait()
	return context.Cause(ctx)
}

// sink is a server that handlers call back, with the time of the send in the URL.
type sink struct {
	*times
	server http.Server
	base   string
}

func newSink(most int) (*sink, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &sink{times: newTimes(most), base: "http://" + listener.Addr().String() + "/"}
	s.server.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		now := time.Now()
		if sent, err := strconv.ParseInt(r.URL.Query().Get("sent"), 10, 64); err == nil {
			s.add(now.Sub(time.Unix(0, sent)))
		}
	})
	go func() { _ = s.server.Serve(listener) }()
	return s, nil
}

// ping is the path that makes an app send a message whose handler calls back.
func (s *sink) ping(sent time.Time) string {
	back := s.base + "?sent=" + strconv.FormatInt(sent.UnixNano(), 10)
	return "/ping?back=" + url.QueryEscape(back)
}

func (b *bench) workerLatency(ctx context.Context, n int) (t *times, err error) {
	s, err := newSink(n)
	if err != nil {
		return nil, err
	}
	defer s.server.Close()
	w, err := b.openWorker(ctx, "latency-workers", batches, 2, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close(ctx)) }()
	err = everyTick(ctx, n, func() error {
		_, err := w.number(ctx, w.send+s.ping(time.Now()))
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.times, s.wait(ctx, n)
}
