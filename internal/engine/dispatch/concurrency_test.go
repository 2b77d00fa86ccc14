package dispatch

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/runlot/runlot/internal/core/queue"
)

func TestConcurrencyRule(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		declared := rapid.IntRange(0, 300).Draw(rt, "declared")
		consumer := &queue.Consumer{BatchSize: 10, BatchTimeout: 5 * time.Second, HandlerTime: 40 * time.Second}
		c := newConcurrency(declared)
		highest := queue.MaxConcurrency
		near := false
		if declared > 0 {
			highest = min(declared, queue.MaxConcurrency)
			if c.limit != highest {
				rt.Fatalf("a declared concurrency of %d begins at %d", declared, c.limit)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"succeeded": func(rt *rapid.T) {
				before, running, ready := c.limit, rapid.IntRange(0, c.limit).Draw(rt, "running"), rapid.Int64Range(0, 30).Draw(rt, "ready")
				took := time.Duration(rapid.IntRange(0, 40).Draw(rt, "took")) * time.Second
				near = took > 10*time.Second
				c.succeeded(took, running, ready, consumer)
				want := before
				if declared == 0 && !near && running > before/2 && ready >= 10 {
					want = min(before+1, queue.MaxConcurrency)
				}
				if c.limit != want {
					rt.Fatalf("%d became %d, want %d", before, c.limit, want)
				}
			},
			"waited": func(rt *rapid.T) {
				before, busy := c.limit, time.Duration(rapid.IntRange(0, 7).Draw(rt, "busy"))*time.Second
				ready := rapid.Int64Range(0, 30).Draw(rt, "ready")
				want := before
				if declared == 0 && !near && (ready >= 10 && busy >= time.Second || ready > 0 && busy >= 5*time.Second) {
					want = min(before+1, queue.MaxConcurrency)
				}
				if grew := c.waited(busy, ready, consumer); c.limit != want || grew != (want > before) {
					rt.Fatalf("%d became %d, want %d", before, c.limit, want)
				}
			},
			"setback": func(rt *rapid.T) {
				before := c.limit
				c.setback()
				if declared == 0 && c.limit != max(1, before/2) || declared > 0 && c.limit != before {
					rt.Fatalf("%d became %d", before, c.limit)
				}
			},
			"idle": func(rt *rapid.T) {
				c.idle()
				near = false
				if declared == 0 && c.limit != 1 {
					rt.Fatalf("idle left %d", c.limit)
				}
			},
			"burst": func(*rapid.T) {
				near = false
				for range 100 {
					c.succeeded(0, c.limit, 10, consumer)
				}
			},
			"": func(rt *rapid.T) {
				if c.limit < 1 || c.limit > highest || declared > 0 && c.limit != highest {
					rt.Fatalf("limit %d of %d", c.limit, highest)
				}
			},
		})
	})
}

// TestBudget: what is granted never exceeds the whole, requests are granted in their order, and what fits is granted.
func TestBudget(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const total = 100
		b := NewBudget(total)
		var open []*claim
		granted := func(c *claim) bool {
			select {
			case <-c.granted:
				return true
			default:
				return false
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"request": func(rt *rapid.T) { open = append(open, b.request(rapid.Int64Range(1, 150).Draw(rt, "bytes"))) },
			"release": func(rt *rapid.T) {
				if len(open) > 0 {
					i := rapid.IntRange(0, len(open)-1).Draw(rt, "which")
					open[i].release()
					open = append(open[:i:i], open[i+1:]...)
				}
			},
			"": func(rt *rapid.T) {
				var used int64
				var waits *claim
				for _, c := range open {
					switch {
					case !granted(c) && waits == nil:
						waits = c
					case granted(c) && waits != nil:
						rt.Fatalf("a later request overtook an earlier one")
					case granted(c):
						used += c.bytes
					}
				}
				if used > total || b.left != total-used {
					rt.Fatalf("%d of %d used, %d left", used, total, b.left)
				}
				if waits != nil && used == 0 {
					rt.Fatalf("a request of %d waits for an empty budget", waits.bytes)
				}
				if waits != nil && waits.bytes <= b.left {
					rt.Fatalf("a request of %d waits with %d left", waits.bytes, b.left)
				}
			},
		})
	})
}
