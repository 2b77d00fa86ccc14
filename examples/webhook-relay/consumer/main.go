// Command consumer pulls webhooks from a queue and forwards them to a target. What the target takes is acked; what it does
// not take comes back after 1, 2, 4 … seconds, until the queue's retries are spent and it is a dead letter.
//
// The server, the token and the account are in CLOUDFLARE_BASE_URL, CLOUDFLARE_API_TOKEN and CLOUDFLARE_ACCOUNT_ID; without
// the first it is Cloudflare.
package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cloudflare/cloudflare-go/v6"
	"github.com/cloudflare/cloudflare-go/v6/option"
	"github.com/cloudflare/cloudflare-go/v6/queues"
)

const (
	// batchSize is how many webhooks are pulled and forwarded at a time.
	batchSize = 20
	// lease is how long a pulled webhook belongs to this program; forwardTime, the most that one may take, is well below.
	lease       = 60 * time.Second
	forwardTime = 20 * time.Second
	// longPoll is how long celld holds a pull until there is a message. Cloudflare ignores it and answers at once.
	longPoll = 20 * time.Second
	// pollEvery is the least time between two pulls that bring nothing.
	pollEvery = time.Second
	// mostDelay bounds the time before a retry.
	mostDelay = time.Hour
	// ackTime bounds the last ack after an interrupt.
	ackTime = 10 * time.Second
)

// webhook is what the Worker queued.
type webhook struct {
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

// relay forwards the webhooks of one queue.
type relay struct {
	api     *queues.QueueService
	account string
	queue   string // its id
	target  string // a URL without a slash at the end
}

func main() {
	name := flag.String("queue", "webhooks", "`name` of the queue")
	target := flag.String("target", "", "`URL` that webhooks are forwarded to; their path is put behind it")
	flag.Parse()
	if *target == "" {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := &relay{api: cloudflare.NewClient().Queues, account: os.Getenv("CLOUDFLARE_ACCOUNT_ID"), target: strings.TrimSuffix(*target, "/")}
	for r.queue == "" {
		id, err := r.find(ctx, *name)
		if err != nil && !pause(ctx, err) {
			return
		}
		r.queue = id
	}
	log.Printf("forwarding %s to %s", *name, *target)
	for ctx.Err() == nil {
		began := time.Now()
		n, err := r.turn(ctx)
		if (err != nil || n == 0 && time.Since(began) < pollEvery) && !pause(ctx, err) {
			return
		}
	}
}

// pause waits a little before the next call, and reports whether there is to be one.
func pause(ctx context.Context, err error) bool {
	if err != nil && ctx.Err() == nil {
		log.Print(err)
	}
	select {
	case <-time.After(pollEvery):
		return true
	case <-ctx.Done():
		return false
	}
}

// find looks up the id of a queue.
func (r *relay) find(ctx context.Context, name string) (string, error) {
	pages := r.api.ListAutoPaging(ctx, queues.QueueListParams{AccountID: cloudflare.F(r.account)})
	for pages.Next() {
		if q := pages.Current(); q.QueueName == name {
			return q.QueueID, nil
		}
	}
	if err := pages.Err(); err != nil {
		return "", fmt.Errorf("list the queues: %w", err)
	}
	return "", fmt.Errorf("there is no queue %s", name)
}

// turn pulls some webhooks, forwards them all at once and settles them. It returns how many there were.
func (r *relay) turn(ctx context.Context) (int, error) {
	pulled, err := r.api.Messages.Pull(ctx, r.queue, queues.MessagePullParams{
		AccountID: cloudflare.F(r.account), BatchSize: cloudflare.F[float64](batchSize),
		VisibilityTimeoutMs: cloudflare.F(float64(lease.Milliseconds())),
	}, option.WithJSONSet("wait_ms", longPoll.Milliseconds()))
	if err != nil {
		return 0, fmt.Errorf("pull: %w", err)
	}
	var acks []queues.MessageAckParamsAck
	var retries []queues.MessageAckParamsRetry
	var mu sync.Mutex // guards acks and retries
	var forwards sync.WaitGroup
	// What is pulled is forwarded and settled, even when an interrupt comes in between.
	work := context.WithoutCancel(ctx)
	for _, m := range pulled.Messages {
		forwards.Go(func() {
			err := r.forward(work, m)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				acks = append(acks, queues.MessageAckParamsAck{LeaseID: cloudflare.F(m.LeaseID)})
				return
			}
			delay := delay(int(m.Attempts))
			log.Printf("webhook %s, attempt %.0f: %v; again in %s", m.ID, m.Attempts, err, delay)
			retries = append(retries, queues.MessageAckParamsRetry{LeaseID: cloudflare.F(m.LeaseID), DelaySeconds: cloudflare.F(delay.Seconds())})
		})
	}
	forwards.Wait()
	if len(acks)+len(retries) == 0 {
		return 0, nil
	}
	ended, cancel := context.WithTimeout(work, ackTime)
	defer cancel()
	// Where this fails the leases run out and the webhooks come again: the target knows them by their Webhook-Id.
	if _, err := r.api.Messages.Ack(ended, r.queue, queues.MessageAckParams{
		AccountID: cloudflare.F(r.account), Acks: cloudflare.F(acks), Retries: cloudflare.F(retries),
	}); err != nil {
		return len(pulled.Messages), fmt.Errorf("ack: %w", err)
	}
	return len(pulled.Messages), nil
}

// delay is the time before the next attempt: 1, 2, 4 … seconds.
func delay(attempts int) time.Duration {
	return min(time.Second<<min(attempts-1, 16), mostDelay)
}

// forward sends a webhook to the target.
func (r *relay) forward(ctx context.Context, m queues.MessagePullResponseMessage) error {
	// JSON comes in base64, as on Cloudflare.
	text, err := base64.StdEncoding.DecodeString(m.Body)
	if err != nil {
		return err
	}
	var hook webhook
	if err := json.Unmarshal(text, &hook); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, forwardTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.target+hook.Path, bytes.NewReader([]byte(hook.Body)))
	if err != nil {
		return err
	}
	for name, value := range hook.Headers {
		request.Header.Set(name, value)
	}
	request.Header.Set("Webhook-Id", m.ID)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20))
	err = errors.Join(err, response.Body.Close())
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("the target answers %s", response.Status)
	}
	return err
}
