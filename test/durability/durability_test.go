//go:build linux

// Package durability_test kills the real program, the workerd and the PostgreSQL that it runs, at random moments while
// clients send, and holds what was acknowledged against what was delivered.
//
//	go test ./test/durability -rounds=100 -seed=7
package durability_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	rounds = flag.Int("rounds", 20, "how often something is killed")
	seed   = flag.Uint64("seed", 0, "what the kills and the load are drawn from; 0 draws a seed")
)

// What a kill ends.
const (
	killNode       = "node"
	killWorkerd    = "workerd"
	killPostmaster = "postmaster"
	killBackend    = "backend"
	killAll        = "all three"
)

const (
	// loadTime is the longest time between a recovery and the next kill.
	loadTime = 1500 * time.Millisecond
	// calmEvery is how many rounds there are to one before which everything is drained and settled.
	calmEvery = 7
	// clients send one message a call, but for batchers, which send sendSize; each pauses for pace after a call.
	clients  = 6
	batchers = 2
	sendSize = 10
	pace     = 10 * time.Millisecond
	// backlog is how many messages may wait for a handler before the clients pause: the test is about kills.
	backlog = 1_000
)

// round is one kill.
type round struct {
	kind string
	// after is the time of load before the kill; pick chooses among several victims.
	after time.Duration
	pick  int
	// calm: nothing is in flight or unsettled. hasty: the next kill does not wait until this one is over.
	calm, hasty bool
}

// plan draws the rounds. Every kind comes equally often, the node's twice.
func plan(random *rand.Rand, n int) []round {
	var deck []string
	list := make([]round, n)
	for i := range list {
		if len(deck) == 0 {
			deck = []string{killNode, killNode, killWorkerd, killPostmaster, killBackend, killAll}
			random.Shuffle(len(deck), func(a, b int) { deck[a], deck[b] = deck[b], deck[a] })
		}
		list[i] = round{
			kind: deck[0], after: time.Duration(random.Int64N(int64(loadTime))), pick: random.IntN(1 << 20),
			calm: i%calmEvery == calmEvery-1, hasty: random.IntN(4) == 0,
		}
		deck = deck[1:]
	}
	return list
}

func TestKills(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64N(1_000_000) + 1
	}
	t.Logf("seed %d (again with -seed=%d -rounds=%d)", *seed, *seed, *rounds)
	h := newHistory()
	collector := httptest.NewServer(h)
	defer collector.Close()
	n := newNode(t, collector.URL)
	n.start()
	l := &load{history: h, url: n.url(), stopped: make(chan struct{})}
	probe := &sender{load: l, name: "probe", random: rand.New(rand.NewPCG(*seed, clients))}
	serves := func() bool { return probe.send(1) == nil }
	n.await("the first start", startTime, serves)
	n.served = true
	for i := range clients {
		s := &sender{load: l, name: fmt.Sprint("client-", i), random: rand.New(rand.NewPCG(*seed, uint64(i)))}
		size := 1
		if i < batchers {
			size = sendSize
		}
		l.running.Go(func() { s.run(size) })
	}
	defer l.stop()
	ended := false
	defer func() {
		if !ended {
			t.Logf("when it broke off: %v\n%s", judge(h), strings.Join(judge(h).list(), "\n"))
		}
	}()

	kills := map[string]int{}
	for i, r := range plan(rand.New(rand.NewPCG(*seed, 1<<32)), *rounds) {
		if r.calm {
			l.gate.Lock()
			n.await("an empty queue", startTime, l.drained)
			<-time.After(settledAfter)
		} else {
			<-time.After(r.after)
		}
		n.output.notef("round %d: kill %s", i+1, r.kind)
		at := n.kill(r.kind, r.pick)
		h.deaths = append(h.deaths, death{kind: r.kind, at: at})
		kills[r.kind]++
		if r.calm {
			l.gate.Unlock()
		}
		if r.hasty && i+1 < *rounds && (i+2)%calmEvery != 0 {
			continue
		}
		n.await(fmt.Sprintf("round %d: recovery from the kill of %s", i+1, r.kind), startTime, serves)
		n.served = true
		h.over(time.Now())
		n.output.notef("round %d: over after %s", i+1, time.Since(at))
	}
	l.stop()
	n.await("an empty queue at the end", startTime, l.drained)
	n.stop()
	ended = true
	if left := of(n.state); len(left) > 0 {
		t.Errorf("processes left after a clean stop: %v", left)
	}

	j := judge(h)
	counts := make([]string, 0, len(kills))
	for kind, count := range kills {
		counts = append(counts, fmt.Sprintf("%s %d", kind, count))
	}
	slices.Sort(counts)
	t.Logf("%v; %d sends failed; kills: %s", j, h.failed, strings.Join(counts, ", "))
	for _, problem := range j.list() {
		t.Error(problem)
	}
	if j.acknowledged < 10**rounds {
		t.Errorf("only %d messages were acknowledged in %d rounds: too few to show anything", j.acknowledged, *rounds)
	}
}

// over ends the kills that are not over yet.
func (h *history) over(now time.Time) {
	for i := range h.deaths {
		if h.deaths[i].over.IsZero() {
			h.deaths[i].over = now
		}
	}
}

// load is the clients.
type load struct {
	history *history
	url     string
	// gate is read-locked by every send of a client; who locks it pauses them all.
	gate    sync.RWMutex
	once    sync.Once
	stopped chan struct{}
	running sync.WaitGroup
}

// stop ends the clients and waits for their last sends. Twice is fine.
func (l *load) stop() {
	l.once.Do(func() { close(l.stopped) })
	l.running.Wait()
}

// drained reports whether nothing is left to deliver or to settle, as far as the queues know.
func (l *load) drained() bool {
	response, err := client.Get(l.url + "/backlog")
	if err != nil {
		return false
	}
	defer response.Body.Close()
	var waiting int
	return json.NewDecoder(response.Body).Decode(&waiting) == nil && response.StatusCode == http.StatusOK && waiting == 0
}

// sender makes messages with names of its own, one call at a time.
type sender struct {
	load   *load
	name   string
	random *rand.Rand
	serial int
}

// run sends until the load stops.
func (s *sender) run(size int) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		select {
		case <-s.load.stopped:
			return
		case <-tick.C:
		}
		if s.load.history.unfinished() < backlog {
			s.load.gate.RLock()
			_ = s.send(size)
			s.load.gate.RUnlock()
		}
	}
}

// send makes one call with new messages and notes whether it was acknowledged.
func (s *sender) send(size int) error {
	bodies := make([]body, size)
	for i := range bodies {
		s.serial++
		bodies[i] = body{
			ID: fmt.Sprintf("%s/%d", s.name, s.serial), How: "now", Text: strings.Repeat("x", s.random.IntN(300)),
		}
		switch s.random.IntN(40) {
		case 0, 1, 2, 3:
			bodies[i].Fails = 1 + s.random.IntN(maxRetries)
		case 4:
			bodies[i].Fails = maxRetries + 100
		}
		bodies[i].How = []string{"now", "later", "throw"}[s.random.IntN(3)]
	}
	s.load.history.sending(bodies)
	err := s.post(bodies)
	s.load.history.sent(bodies, err)
	return err
}

func (s *sender) post(bodies []body) error {
	path, what := "/batch", any(bodies)
	if len(bodies) == 1 {
		path, what = "/send", bodies[0]
	}
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	response, err := client.Post(s.load.url+path, "application/json", bytes.NewReader(text))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK || string(answer) != "sent" {
		return errors.New(response.Status)
	}
	return nil
}
