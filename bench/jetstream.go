package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/runlot/runlot/bench/peer"
)

// The stream of the figures, and the subject and the consumer that it has.
const (
	streamName  = "JOBS"
	subjectName = "jobs"
)

// natsReady is what a NATS server says when it runs.
type natsReady struct{ URL string }

// runJetStream is the program behind jetstreamCommand: a NATS server on a free port with its data in the folder that is its
// only argument. It prints a line of JSON when it runs.
func runJetStream(args []string) error {
	f := flag.NewFlagSet(jetstreamCommand, flag.ContinueOnError)
	always := f.Bool("sync-always", false, "sync each write")
	if err := f.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: f.Arg(0), SyncAlways: *always, NoSigs: true, NoLog: true,
	})
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(stopTime) {
		return errors.New("the NATS server does not start")
	}
	if err := json.NewEncoder(os.Stdout).Encode(natsReady{s.ClientURL()}); err != nil {
		return err
	}
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

// overNATS is a client of JetStream.
type overNATS struct {
	conn     *nats.Conn
	js       jetstream.JetStream
	consumer jetstream.Consumer
	// whole has batches stored whole, which is faster where each write is synced, and slower where none is.
	whole bool
}

// openJetStream starts a NATS server with a stream on the disk. Its work queue deletes what is acked, as ours does.
func (b *bench) openJetStream(ctx context.Context, always bool) (_ subject, err error) {
	var ready natsReady
	c, err := b.copy(ctx, &ready, jetstreamCommand, "-sync-always="+strconv.FormatBool(always), filepath.Join(b.tmp, "jetstream-"+strconv.FormatBool(always)))
	if err != nil {
		return nil, err
	}
	p := &pulled{pid: c.pid(), stop: c.stop}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close(ctx))
		}
	}()
	for range pullHands {
		conn, err := nats.Connect(ready.URL)
		if err != nil {
			return nil, err
		}
		h := &overNATS{conn: conn, whole: always}
		p.hands = append(p.hands, h)
		js, err := jetstream.New(conn)
		if err != nil {
			return nil, err
		}
		h.js = js
		stream, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
			Name: streamName, Subjects: []string{subjectName}, Storage: jetstream.FileStorage, Retention: jetstream.WorkQueuePolicy, AllowAtomicPublish: always,
		})
		if err != nil {
			return nil, err
		}
		h.consumer, err = stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
			Durable: "pull", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second, MaxAckPending: 2 * pullHands * batchSize, MaxWaiting: 2 * pullHands,
		})
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (h *overNATS) close() { h.conn.Close() }

// push stores the messages of a batch one by one, and returns when all of it is confirmed.
func (h *overNATS) push(ctx context.Context) error {
	stored := make([]jetstream.PubAckFuture, batchSize)
	for i := range stored {
		var err error
		if stored[i], err = h.js.PublishAsync(subjectName, peer.Body); err != nil {
			return err
		}
	}
	for _, s := range stored {
		select {
		case <-s.Ok():
		case err := <-s.Err():
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// pushWhole stores a batch whole or not at all, and returns when that is confirmed. The server syncs each batch, also where it
// does not sync what is pushed one by one.
func (h *overNATS) pushWhole(ctx context.Context) error {
	id := nuid.Next()
	for i := range batchSize {
		m := &nats.Msg{Subject: subjectName, Data: peer.Body, Header: nats.Header{
			"Nats-Batch-Id": []string{id}, "Nats-Batch-Sequence": []string{strconv.Itoa(i + 1)},
		}}
		if i < batchSize-1 {
			if err := h.conn.PublishMsg(m); err != nil {
				return err
			}
			continue
		}
		m.Header.Set("Nats-Batch-Commit", "1")
		answer, err := h.conn.RequestMsgWithContext(ctx, m)
		if err != nil {
			return err
		}
		var done struct {
			Error *struct {
				Description string `json:"description"`
			} `json:"error"`
		}
		if err := json.Unmarshal(answer.Data, &done); err != nil {
			return err
		}
		if done.Error != nil {
			return fmt.Errorf("the batch is not stored: %s", done.Error.Description)
		}
	}
	return nil
}

func (h *overNATS) turn(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	push := h.push
	if h.whole {
		push = h.pushWhole
	}
	if err := push(ctx); err != nil {
		return 0, err
	}
	batch, err := h.consumer.Fetch(batchSize, jetstream.FetchMaxWait(pullWait))
	if err != nil {
		return 0, err
	}
	var last jetstream.Msg
	n := 0
	for m := range batch.Messages() {
		if last != nil {
			if err := last.Ack(); err != nil {
				return 0, err
			}
		}
		last = m
		n++
	}
	if err := batch.Error(); err != nil || last == nil {
		return 0, err
	}
	// Acks of one connection are handled in order, so that the last answer speaks for all.
	return n, last.DoubleAck(ctx)
}
