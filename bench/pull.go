package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/runlot/runlot/bench/measure"
	"github.com/runlot/runlot/bench/peer"
	"github.com/runlot/runlot/bench/report"
)

const (
	// pullHands is the number of clients, each of which pushes a batch, pulls one, acks it and begins again.
	pullHands = 32
	// pullWait is how long a pull waits for messages.
	pullWait = 5 * time.Second
	// jetstreamCommand is the first argument of a copy of this program that runs a NATS server.
	jetstreamCommand = "jetstream"
)

// hand is one client.
type hand interface {
	// turn pushes a batch, pulls up to a batch and acks it. It returns the number of messages that were acked.
	turn(ctx context.Context) (int, error)
	close()
}

// pulled is a server from which clients pull.
type pulled struct {
	hands []hand
	pid   int
	stop  func() error
}

// Close implements subject.
func (p *pulled) Close(context.Context) error {
	for _, h := range p.hands {
		h.close()
	}
	return p.stop()
}

// Measure counts messages that were pushed, pulled and acked.
func (p *pulled) Measure(ctx context.Context, w measure.Window) (measure.Sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var acked atomic.Int64
	stopping := make(chan struct{})
	var running sync.WaitGroup
	for _, h := range p.hands {
		running.Go(func() {
			for {
				select {
				case <-stopping:
					return
				case <-ctx.Done():
					return
				default:
				}
				n, err := h.turn(ctx)
				acked.Add(int64(n))
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	sample, err := w.Count(ctx, acked.Load, p.pid)
	close(stopping)
	running.Wait()
	return sample, errors.Join(err, context.Cause(ctx))
}

// overHTTP is a client of the daemon.
type overHTTP struct {
	queue, token string
	client       *http.Client
	messages     []byte
}

func (b *bench) openPull(ctx context.Context) (_ subject, err error) {
	var args []string
	if b.profile != "" {
		args = []string{"-profile", filepath.Join(b.profile, "pull.pprof")}
	}
	l, err := b.launch(ctx, "pull", args...)
	if err != nil {
		return nil, err
	}
	p := &pulled{pid: l.pid(), stop: l.stop}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close(ctx))
		}
	}()
	messages := make([]map[string]any, batchSize)
	for i := range messages {
		messages[i] = map[string]any{"body": json.RawMessage(peer.Body)}
	}
	text, err := json.Marshal(map[string]any{"messages": messages})
	if err != nil {
		return nil, err
	}
	first := &overHTTP{queue: l.ready.Operator + "/client/v4/accounts/local/queues", token: l.token, client: http.DefaultClient, messages: text}
	var made struct {
		ID string `json:"queue_id"`
	}
	if err := first.call(ctx, "", []byte(`{"queue_name": "pulled"}`), &made); err != nil {
		return nil, err
	}
	first.queue += "/" + made.ID
	if err := first.call(ctx, "/consumers", []byte(`{"type": "http_pull"}`), nil); err != nil {
		return nil, err
	}
	for range pullHands {
		h := *first
		h.client = &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
		p.hands = append(p.hands, &h)
	}
	return p, nil
}

func (h *overHTTP) close() { h.client.CloseIdleConnections() }

func (h *overHTTP) call(ctx context.Context, path string, body []byte, result any) (err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.queue+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+h.token)
	r.Header.Set("Content-Type", "application/json")
	response, err := h.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", path, response.Status, text)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(text, &struct {
		Result any `json:"result"`
	}{result})
}

func (h *overHTTP) turn(ctx context.Context) (int, error) {
	if err := h.call(ctx, "/messages/batch", h.messages, nil); err != nil {
		return 0, err
	}
	type lease struct {
		ID string `json:"lease_id"`
	}
	var got struct {
		Messages []lease `json:"messages"`
	}
	if err := h.call(ctx, "/messages/pull", fmt.Appendf(nil, `{"batch_size": %d, "wait_ms": %d}`, batchSize, pullWait.Milliseconds()), &got); err != nil {
		return 0, err
	}
	acks, err := json.Marshal(map[string]any{"acks": got.Messages})
	if err != nil {
		return 0, err
	}
	var done struct {
		Acked int `json:"ackCount"`
	}
	if err := h.call(ctx, "/messages/ack", acks, &done); err != nil {
		return 0, err
	}
	if done.Acked != len(got.Messages) {
		return done.Acked, fmt.Errorf("%d of %d messages were acked", done.Acked, len(got.Messages))
	}
	return done.Acked, nil
}

// pullRates is the way of pull consumers next to that of NATS JetStream.
func (b *bench) pullRates(ctx context.Context) error {
	return b.rates(ctx, []entry{
		{
			name: "jetstream-sync", note: "JetStream, each write synced (sync_interval: always)",
			open: func(ctx context.Context) (subject, error) { return b.openJetStream(ctx, true) },
		},
		{
			name: "jetstream", note: "JetStream, synced every two minutes as it is by default: a crash of the machine loses what was confirmed",
			open: func(ctx context.Context) (subject, error) { return b.openJetStream(ctx, false) },
		},
		{
			name: "pull", open: b.openPull, note: "pushed, pulled and acked over HTTP, batches of 100",
			targets: []report.Target{{Peer: "jetstream-sync", Want: 1}, {Peer: "jetstream", Want: 0.5}},
		},
	})
}
