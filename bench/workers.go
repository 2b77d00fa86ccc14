package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/runlot/runlot/bench/measure"
	"github.com/runlot/runlot/bench/peer"
	"github.com/runlot/runlot/bench/project"
	"github.com/runlot/runlot/bench/report"
)

const (
	// pollEvery is how often a consumer is asked how many messages it was given.
	pollEvery = 20 * time.Millisecond
	// drainTime is how long the rest of a round may take to be delivered.
	drainTime = 30 * time.Second
)

// traffic is how an app is set to work.
type traffic struct {
	// path makes the app send messages, and answer with their number.
	path string
	// clients ask at the same time.
	clients int
	// most is how many messages may be on their way to the consumer before the clients pause.
	most int64
}

var (
	batches = traffic{path: "/batch", clients: 32, most: 10_000}
	// A single client keeps twenty sends under way, not more.
	singles = traffic{path: "/single?times=10", clients: 1, most: 4_000}
)

// worker is an app that is driven over HTTP, on whatever runtime.
type worker struct {
	traffic
	// send and receive are the URLs of the app that sends and the one that receives; they may be the same.
	send, receive string
	pid           int
	stop          func() error
	client        http.Client
}

// Close implements subject.
func (w *worker) Close(context.Context) error {
	w.client.CloseIdleConnections()
	return w.stop()
}

// Measure counts messages that reached the queue handler.
func (w *worker) Measure(ctx context.Context, window measure.Window) (measure.Sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	before, err := w.number(ctx, w.receive+"/delivered")
	if err != nil {
		return measure.Sample{}, err
	}
	var sent, delivered atomic.Int64
	stopSending, stopPolling := make(chan struct{}), make(chan struct{})
	var sending, polling sync.WaitGroup
	polling.Go(func() {
		if err := w.poll(ctx, before, &delivered, stopPolling); err != nil {
			cancel(err)
		}
	})
	for range w.clients {
		sending.Go(func() {
			if err := w.keepSending(ctx, &sent, &delivered, stopSending); err != nil {
				cancel(err)
			}
		})
	}
	sample, err := window.Count(ctx, delivered.Load, w.pid)
	close(stopSending)
	sending.Wait()
	if err == nil {
		err = settle(ctx, &sent, &delivered)
	}
	close(stopPolling)
	polling.Wait()
	return sample, err
}

// poll follows the consumer's count.
func (w *worker) poll(ctx context.Context, before int64, delivered *atomic.Int64, stop <-chan struct{}) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		n, err := w.number(ctx, w.receive+"/delivered")
		if err != nil {
			return err
		}
		delivered.Store(n - before)
	}
}

// keepSending is one client. It pauses while the consumer is behind.
func (w *worker) keepSending(ctx context.Context, sent, delivered *atomic.Int64, stop <-chan struct{}) error {
	tick := time.NewTicker(pollEvery / 4)
	defer tick.Stop()
	for {
		for behind := true; behind; behind = sent.Load()-delivered.Load() >= w.most {
			select {
			case <-stop:
				return nil
			case <-ctx.Done():
				return nil
			default:
			}
			if sent.Load()-delivered.Load() >= w.most {
				<-tick.C
			}
		}
		n, err := w.number(ctx, w.send+w.path)
		if err != nil {
			return err
		}
		sent.Add(n)
	}
}

// settle waits until everything that was sent has been delivered, so that the next round begins with nothing.
func settle(ctx context.Context, sent, delivered *atomic.Int64) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for begun := time.Now(); delivered.Load() < sent.Load(); {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		if time.Since(begun) > drainTime {
			return fmt.Errorf("%d of %d messages were not delivered within %s", sent.Load()-delivered.Load(), sent.Load(), drainTime)
		}
	}
	return nil
}

// number asks an app for a number.
func (w *worker) number(ctx context.Context, url string) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	res, err := w.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 4<<10))
	if err != nil {
		return 0, err
	}
	if res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s answers %s: %s", url, res.Status, text)
	}
	return strconv.ParseInt(string(text), 10, 64)
}

// openWorker starts a worker on the product. Two apps send and receive in a process each.
func (b *bench) openWorker(ctx context.Context, name string, t traffic, apps int, inMemory bool) (*worker, error) {
	n, err := b.startApps(ctx, name, apps, nodeOptions{inMemory: inMemory})
	if err != nil {
		return nil, err
	}
	return newWorker(t, n.urls[0], n.urls[apps-1], n.pid(), n.stop), nil
}

func newWorker(t traffic, send, receive string, pid int, stop func() error) *worker {
	return &worker{
		traffic: t, send: send, receive: receive, pid: pid, stop: stop,
		client: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16, IdleConnTimeout: 10 * time.Second}, Timeout: drainTime},
	}
}

// startApps starts the product with one app that sends and receives, or with one for each.
func (b *bench) startApps(ctx context.Context, name string, apps int, o nodeOptions) (*node, error) {
	dir := filepath.Join(b.tmp, name)
	o.state = filepath.Join(dir, "state")
	projects := []project.Options{{Name: "sender", Sends: true, Receives: apps == 1}}
	if apps == 2 {
		projects = append(projects, project.Options{Name: "receiver", Receives: true})
	}
	for _, p := range projects {
		at := filepath.Join(dir, p.Name)
		if err := project.Write(at, p); err != nil {
			return nil, err
		}
		o.dirs = append(o.dirs, at)
	}
	if b.profile != "" && o.profile == "" {
		o.profile = filepath.Join(b.profile, name+".pprof")
	}
	return b.startNode(ctx, o)
}

// openOwnQueue starts the same worker on workerd's own queue.
func (b *bench) openOwnQueue(ctx context.Context, name string, t traffic) (*worker, error) {
	dir := filepath.Join(b.tmp, name)
	if err := project.Write(dir, project.Options{Name: "own", Sends: true, Receives: true, Plain: true}); err != nil {
		return nil, err
	}
	w, err := peer.StartWorkerd(ctx, b.paths.Workerd, dir)
	if err != nil {
		return nil, err
	}
	return newWorker(t, w.URL, w.URL, w.PID(), w.Stop), nil
}

// workerRates is the product with real Workers: sendBatch of a hundred in one, the queue handler in another.
func (b *bench) workerRates(ctx context.Context) error {
	return b.rates(ctx, []entry{
		{
			name: "workerd", note: "workerd's own queue, one app",
			open: func(ctx context.Context) (subject, error) { return b.openOwnQueue(ctx, "workerd", batches) },
		},
		{
			name: "workers-memory", note: "two apps, queues in memory",
			open: func(ctx context.Context) (subject, error) {
				return b.openWorker(ctx, "workers-memory", batches, 2, true)
			},
		},
		{
			name: "workers-one", note: "one app sends and receives",
			open:    func(ctx context.Context) (subject, error) { return b.openWorker(ctx, "workers-one", batches, 1, false) },
			targets: []report.Target{{Peer: "workerd", Want: 5}},
		},
		{
			name: "workers", note: "two apps, one sends and one receives",
			open:    func(ctx context.Context) (subject, error) { return b.openWorker(ctx, "workers", batches, 2, false) },
			targets: []report.Target{{Want: 30_000}, {Peer: "workerd", Want: 5}, {Peer: "workers-memory", Want: 0.7}},
		},
	})
}

// singleRates is the same with single sends, twenty at a time.
func (b *bench) singleRates(ctx context.Context) error {
	return b.rates(ctx, []entry{
		{name: "disk", unit: "sync/s", open: b.openDisk, note: "8 KiB made durable by one writer, one after the other"},
		{
			name: "single-workerd", note: "workerd's own queue, one app",
			open: func(ctx context.Context) (subject, error) { return b.openOwnQueue(ctx, "single-workerd", singles) },
		},
		{
			name: "single", note: "20 sends at a time inside requests, two apps",
			open:    func(ctx context.Context) (subject, error) { return b.openWorker(ctx, "single", singles, 2, false) },
			targets: []report.Target{{Want: 3_500}, {Peer: "single-workerd", Want: 5}},
		},
	})
}
