//go:build linux

package durability_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var pullKills = flag.Int("pullkills", 3, "how often TestKillsUnderPullers kills celld")

// puller calls a celld that may die at any moment, and keeps what it was told.
type puller struct {
	url, token string
	client     *http.Client

	mu     sync.Mutex
	random *rand.Rand
	queue  string          // path of the queue
	sent   map[string]bool // bodies whose push was answered
	pulled map[string]int
	acked  map[string]bool // bodies whose ack was answered
	held   []string        // leases that nobody answered
	faults []string
	next   int
}

func (p *puller) call(ctx context.Context, method, path string, body, result any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, p.url+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+p.token)
	response, err := p.client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var e struct {
		Errors []struct{ Message string }
		Result json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&e); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s %+v", method, path, response.Status, e.Errors)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(e.Result, result)
}

// send pushes until ctx ends.
func (p *puller) send(ctx context.Context) {
	for ctx.Err() == nil {
		messages := make([]map[string]any, 0, sendSize)
		p.mu.Lock()
		for range sendSize {
			p.next++
			messages = append(messages, map[string]any{"body": strconv.Itoa(p.next), "content_type": "text"})
		}
		p.mu.Unlock()
		if p.call(ctx, "POST", p.queue+"/messages/batch", map[string]any{"messages": messages}, nil) == nil {
			p.mu.Lock()
			for _, m := range messages {
				p.sent[fmt.Sprint(m["body"])] = true
			}
			p.mu.Unlock()
		}
		<-time.After(10 * time.Millisecond)
	}
}

type lease struct {
	ID string `json:"lease_id"`
}

// take pulls once and answers two of three messages; with all, every one.
func (p *puller) take(ctx context.Context, all bool) error {
	p.mu.Lock()
	before := make(map[string]bool, len(p.acked))
	for body := range p.acked {
		before[body] = true
	}
	p.mu.Unlock()
	var got struct {
		Messages []struct {
			Body  string
			Lease string `json:"lease_id"`
		}
	}
	if err := p.call(ctx, "POST", p.queue+"/messages/pull", map[string]any{"batch_size": 50, "visibility_timeout_ms": 1500, "wait_ms": 500}, &got); err != nil {
		return err
	}
	var acks, retries []lease
	var bodies []string
	p.mu.Lock()
	for _, m := range got.Messages {
		p.pulled[m.Body]++
		if before[m.Body] {
			p.faults = append(p.faults, m.Body+" was pulled after its ack was answered")
		}
		switch kind := p.random.IntN(6); {
		case all || kind < 3:
			acks, bodies = append(acks, lease{m.Lease}), append(bodies, m.Body)
		case kind == 3:
			retries = append(retries, lease{m.Lease})
		default:
			p.held = append(p.held, m.Lease)
		}
	}
	p.mu.Unlock()
	var done struct {
		Acked int `json:"ackCount"`
	}
	if err := p.call(ctx, "POST", p.queue+"/messages/ack", map[string]any{"acks": acks, "retries": retries}, &done); err != nil {
		return err
	}
	if done.Acked == len(acks) { // else one is being delivered again
		p.mu.Lock()
		for _, body := range bodies {
			p.acked[body] = true
		}
		p.mu.Unlock()
	}
	return nil
}

// TestKillsUnderPullers: celld is killed while messages are pushed, pulled and acked over HTTP. Every message whose push
// was answered is pulled, none after its ack was answered, and leases from before a kill are good for an ack after it.
func TestKillsUnderPullers(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64N(1_000_000) + 1
	}
	t.Logf("seed %d (again with -seed=%d -pullkills=%d)", *seed, *seed, *pullKills)
	s := newServant(t)
	s.start()
	token, err := os.ReadFile(filepath.Join(s.data, "admin-token"))
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	p := &puller{
		url: "http://127.0.0.1:" + strconv.Itoa(s.operator) + "/client/v4/accounts/local/queues", token: strings.TrimSpace(string(token)),
		client: &http.Client{Transport: transport, Timeout: startTime}, random: rand.New(rand.NewPCG(*seed, 9)),
		sent: map[string]bool{}, pulled: map[string]int{}, acked: map[string]bool{},
	}
	var made struct {
		ID string `json:"queue_id"`
	}
	if err := p.call(t.Context(), "POST", "", map[string]any{"queue_name": "jobs"}, &made); err != nil {
		t.Fatal(err)
	}
	p.queue = "/" + made.ID
	consumer := map[string]any{"type": "http_pull", "settings": map[string]any{"max_retries": 100}}
	if err := p.call(t.Context(), "POST", p.queue+"/consumers", consumer, nil); err != nil {
		t.Fatal(err)
	}
	for range *pullKills {
		after := time.Second + time.Duration(p.random.Int64N(int64(time.Second)))
		ctx, end := context.WithCancel(t.Context())
		var load sync.WaitGroup
		load.Go(func() { p.send(ctx) })
		for range 3 {
			load.Go(func() {
				for ctx.Err() == nil {
					if err := p.take(ctx, false); err != nil {
						<-time.After(10 * time.Millisecond)
					}
				}
			})
		}
		<-time.After(after)
		s.kill()
		end()
		load.Wait()
		s.start()
	}
	// What is left of the leases from before.
	var old struct {
		Acked int `json:"ackCount"`
	}
	held := p.held[max(0, len(p.held)-500):]
	acks := make([]lease, 0, len(held))
	for _, id := range held {
		acks = append(acks, lease{id})
	}
	if err := p.call(t.Context(), "POST", p.queue+"/messages/ack", map[string]any{"acks": acks}, &old); err != nil || old.Acked != len(acks) || old.Acked == 0 {
		t.Errorf("%d of %d old leases are good for an ack: %v", old.Acked, len(acks), err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	for {
		if err := p.take(ctx, true); err != nil {
			t.Fatal(err)
		}
		var left struct {
			Count int `json:"backlog_count"`
		}
		if err := p.call(ctx, "GET", p.queue+"/metrics", nil, &left); err != nil {
			t.Fatal(err)
		}
		if left.Count == 0 {
			break
		}
	}
	var lost []string
	for body := range p.sent {
		if p.pulled[body] == 0 {
			lost = append(lost, body)
		}
	}
	slices.Sort(lost)
	if len(lost) > 0 {
		t.Errorf("%d of %d messages were never pulled: %.20v", len(lost), len(p.sent), lost)
	}
	for _, fault := range p.faults {
		t.Error(fault)
	}
	t.Logf("%d messages pushed, %d pulled, %d acked; %d acks of leases from before a kill", len(p.sent), len(p.pulled), len(p.acked), old.Acked)
}
