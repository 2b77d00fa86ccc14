package order_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/runlot/runlot/internal/core/order"
)

type entry struct {
	key   int64
	place int
}

func (e *entry) Key() int64  { return e.key }
func (e *entry) Place() *int { return &e.place }

// TestHeapIsASortedSet holds the heap to a plain search for the lowest key.
func TestHeapIsASortedSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h order.Heap[*entry]
		in := map[*entry]bool{}
		pick := func() *entry {
			all := make([]*entry, 0, len(in))
			for e := range in {
				all = append(all, e)
			}
			return rapid.SampledFrom(all).Draw(t, "entry")
		}
		keys := rapid.Int64Range(0, 9)
		lowest := func() int64 {
			low := int64(10)
			for e := range in {
				low = min(low, e.key)
			}
			return low
		}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				e := &entry{key: keys.Draw(t, "key"), place: -1}
				in[e] = true
				if first := h.Push(e); first && e.key != lowest() {
					t.Fatal("an entry is called the first that is not")
				}
			},
			"fix": func(t *rapid.T) {
				if len(in) == 0 {
					t.Skip()
				}
				e := pick()
				e.key = keys.Draw(t, "key")
				if first := h.Fix(e); first != (e.place == 0) {
					t.Fatal("Fix does not tell whether the entry is the first")
				}
			},
			"remove": func(t *rapid.T) {
				if len(in) == 0 {
					t.Skip()
				}
				e := pick()
				delete(in, e)
				h.Remove(e)
				h.Remove(e)
				if e.place != -1 {
					t.Fatal("an entry that was removed has a place")
				}
			},
			"": func(t *rapid.T) {
				first, ok := h.First()
				if ok != (len(in) > 0) || h.Len() != len(in) || ok && (!in[first] || first.key != lowest()) {
					t.Fatalf("first %v of %d", first, len(in))
				}
			},
		})
	})
}
