package pull_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runlot/runlot/internal/adapter/memory"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/operate"
	"github.com/runlot/runlot/internal/engine/pull"
)

// modelled is what a message ought to be.
type modelled struct {
	failures int
	visible  time.Time
	lease    string // while it is leased
	until    time.Time
	gone     bool // acked
	dead     bool
}

// simulation makes random calls one after the other and knows what each has to do.
type simulation struct {
	*rig

	random   *rand.Rand
	messages map[string]*modelled
	leases   []string          // every lease that there ever was
	of       map[string]string // the body of the message of each
}

// pass lets time go on, and leases run out. No lease ends in a whole millisecond, so that no call meets its end.
func (s *simulation) pass(d time.Duration) {
	time.Sleep(d)
	for _, m := range s.messages {
		if m.lease != "" && m.until.Before(time.Now()) {
			m.lease, m.visible = "", m.until
			m.fail()
		}
	}
}

func (m *modelled) fail() {
	if m.failures++; m.failures > 2 {
		m.dead = true
	}
}

func (s *simulation) pullSome() {
	s.t.Helper()
	visible := 0
	for _, m := range s.messages {
		if !m.gone && !m.dead && m.lease == "" && !m.visible.After(time.Now()) {
			visible++
		}
	}
	n := 1 + s.random.IntN(5)
	visibility := time.Duration(1+s.random.IntN(60))*time.Second + 500*time.Microsecond
	list := s.pull(n, visibility)
	// It may be less than there is while a queue is being read again, but not nothing.
	if len(list) > min(n, visible) || len(list) < min(1, visible) {
		s.t.Fatalf("pulled %d messages of %d that are visible, at most %d", len(list), visible, n)
	}
	for i := range list {
		m := s.messages[string(list[i].Body)]
		if m.gone || m.dead || m.lease != "" || m.visible.After(time.Now()) || list[i].Attempts() != m.failures+1 {
			s.t.Fatalf("pulled %s with attempts %d: %+v", list[i].Body, list[i].Attempts(), m)
		}
		m.lease, m.until = list[i].Lease, time.Now().Add(visibility)
		s.leases = append(s.leases, list[i].Lease)
		s.of[list[i].Lease] = string(list[i].Body)
	}
}

func (s *simulation) answerSome() {
	s.t.Helper()
	var acks []string
	var retries []pull.Retry
	wantRetried := 0
	asksRetry := s.random.IntN(3) == 0
	for range 1 + s.random.IntN(3) {
		lease := s.leases[s.random.IntN(len(s.leases))]
		m := s.messages[s.of[lease]]
		switch {
		case !asksRetry:
			acks = append(acks, lease)
			if !m.dead {
				m.gone, m.lease = true, ""
			}
			continue
		case m.lease == lease:
			delay := time.Duration(s.random.IntN(100)) * time.Second
			retries = append(retries, pull.Retry{Lease: lease, Delay: &delay})
			m.lease, m.visible = "", time.Now().Add(delay)
			m.fail()
			wantRetried++
		default:
			retries = append(retries, pull.Retry{Lease: lease, Delay: new(time.Hour)})
		}
	}
	d, err := s.e.Ack(context.Background(), "a", acks, retries)
	s.check(err)
	if d.Retried != wantRetried || d.Acked > len(acks) {
		s.t.Fatalf("%d acks, %d retries: %+v", len(acks), wantRetried, d)
	}
}

// TestSimulation: whatever is called when, each message is where the model has it.
func TestSimulation(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &simulation{rig: start(t), random: rand.New(rand.NewPCG(seed, 0)), messages: map[string]*modelled{}, of: map[string]string{}}
				for step := range 300 {
					switch n := s.random.IntN(20); {
					case n < 4:
						body := fmt.Sprint(step)
						s.messages[body] = &modelled{visible: time.Now()}
						s.send(body)
					case n < 10:
						s.pullSome()
					case n < 16 && len(s.leases) > 0:
						s.answerSome()
					case n == 16:
						s.crash()
						s.restart()
						for _, m := range s.messages {
							m.lease = ""
						}
					default:
						s.pass(time.Duration(s.random.IntN(20_000)) * time.Millisecond)
					}
					s.pass(7 * time.Millisecond)
				}
				s.pass(2 * time.Minute)
				left, dead := 0, 0
				for _, m := range s.messages {
					switch {
					case m.dead:
						dead++
					case !m.gone:
						left++
					}
				}
				if got := s.left("a"); got != int64(left) {
					t.Errorf("%d messages are left, want %d", got, left)
				}
				if got := s.left("dead"); got != int64(dead) {
					t.Errorf("%d dead letters, want %d", got, dead)
				}
			})
		})
	}
}

// crowd is many pullers at a time, of which each message has at most one.
type crowd struct {
	*rig

	mu     sync.Mutex
	random *rand.Rand
	holder map[string]time.Time // until when a message is leased, as its puller knows
	acked  map[string]bool
}

func (c *crowd) intN(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(n)
}

// work pulls and answers until ctx ends. Whoever acks late does so to the engine of the day.
func (c *crowd) work(ctx context.Context, e *pull.Engine) {
	for ctx.Err() == nil {
		visibility := time.Duration(1+c.intN(5)) * time.Second
		list, err := e.Pull(ctx, &c.consumer, pull.Request{Size: 1 + c.intN(20), Visibility: visibility, Wait: time.Second})
		if err != nil {
			return
		}
		var acks []string
		var retries []pull.Retry
		var bodies []string
		c.mu.Lock()
		for i := range list {
			body := string(list[i].Body)
			if until := c.holder[body]; until.After(time.Now()) || c.acked[body] {
				c.t.Errorf("%s is pulled while another holds it until %s, acked %v", body, until, c.acked[body])
			}
			c.holder[body] = time.Now().Add(visibility)
			switch c.random.IntN(4) {
			case 0:
				retries = append(retries, pull.Retry{Lease: list[i].Lease})
			case 1:
			default:
				acks, bodies = append(acks, list[i].Lease), append(bodies, body)
			}
		}
		c.mu.Unlock()
		time.Sleep(time.Duration(c.intN(900)) * time.Millisecond)
		c.mu.Lock()
		for i := range retries {
			for j := range list {
				if list[j].Lease == retries[i].Lease {
					c.holder[string(list[j].Body)] = time.Time{}
				}
			}
		}
		c.mu.Unlock()
		if _, err := e.Ack(ctx, "a", acks, retries); err != nil {
			return
		}
		c.mu.Lock()
		for _, body := range bodies {
			c.acked[body] = true
		}
		c.mu.Unlock()
	}
}

// TestCrowd: pullers that work at the same time, under crashes and a slow store, lose nothing and share nothing.
func TestCrowd(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &crowd{rig: start(t), random: rand.New(rand.NewPCG(seed, 1)), holder: map[string]time.Time{}, acked: map[string]bool{}}
				c.consumer.MaxRetries, c.consumer.Backoff = 1_000, queue.Backoff{}
				const all = 500
				for i := range all {
					c.send(fmt.Sprint(i))
				}
				c.db.SetFaults(func(string) memory.Fault {
					return memory.Fault{Before: time.Duration(c.intN(5)) * time.Millisecond, After: time.Duration(c.intN(5)) * time.Millisecond}
				})
				for range 5 {
					ctx, end := context.WithCancel(t.Context())
					var pullers sync.WaitGroup
					for range 8 {
						pullers.Go(func() { c.work(ctx, c.e) })
					}
					time.Sleep(time.Duration(c.intN(5_000)) * time.Millisecond)
					c.db.Crash(func() bool { return c.intN(2) == 0 })
					<-c.b.Done()
					end()
					pullers.Wait()
					c.stop()
					c.restart()
					clear(c.holder) // leases are lost with their owner
				}
				ctx, end := context.WithTimeout(t.Context(), 10*time.Minute)
				defer end()
				for c.left("a") > 0 && ctx.Err() == nil {
					list := c.pull(100, time.Minute)
					leases := make([]string, 0, len(list))
					for _, m := range list {
						if c.acked[string(m.Body)] {
							t.Errorf("%s is pulled after its ack was committed", m.Body)
						}
						c.acked[string(m.Body)] = true
						leases = append(leases, m.Lease)
					}
					c.ack(leases...)
					time.Sleep(time.Second)
				}
				// What an ack deleted whose answer was lost in a crash is in neither.
				page, err := c.b.Peek(ctx, "dead", operate.PeekOptions{})
				if err != nil || len(page.Messages) > 0 || c.left("a") > 0 {
					t.Errorf("%d messages left, dead letters %v, %v", c.left("a"), page.Messages, err)
				}
			})
		})
	}
}
