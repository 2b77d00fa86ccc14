package conformance_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// gate is a server that handlers call so that a case can hold them and count them. GET /wait/NAME answers when NAME is
// open; GET /count/NAME answers at once with the number of this call.
type gate struct {
	url string

	mu      sync.Mutex
	change  chan struct{}   // closed and replaced at every change; guarded by mu
	opened  map[string]bool // guarded by mu
	all     bool            // guarded by mu
	arrived map[string]int  // guarded by mu
	order   []string        // every call, in order of arrival; guarded by mu
}

func newGate(t *testing.T) *gate {
	g := &gate{change: make(chan struct{}), opened: map[string]bool{}, arrived: map[string]int{}}
	server := httptest.NewServer(g)
	t.Cleanup(func() {
		g.openAll()
		server.Close()
	})
	g.url = server.URL
	return g
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	verb, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	g.mu.Lock()
	g.arrived[name]++
	g.order = append(g.order, name)
	number := g.arrived[name]
	g.changed()
	g.mu.Unlock()
	if verb == "wait" && !g.await(func() bool { return g.all || g.opened[name] }, r.Context().Done()) {
		return
	}
	fmt.Fprint(w, number)
}

// changed tells those who wait. mu is held.
func (g *gate) changed() {
	close(g.change)
	g.change = make(chan struct{})
}

// await waits until a condition over the gate holds, and reports whether it does.
func (g *gate) await(holds func() bool, end <-chan struct{}) bool {
	for {
		g.mu.Lock()
		ok, change := holds(), g.change
		g.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-change:
		case <-end:
			return false
		}
	}
}

// open lets everybody through who waits for name, now and later.
func (g *gate) open(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened[name] = true
	g.changed()
}

func (g *gate) openAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = true
	g.changed()
}

// arrivals is the number of calls with this name.
func (g *gate) arrivals(name string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.arrived[name]
}

// calls returns the calls whose name begins so, in order.
func (g *gate) calls(prefix string) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []string
	for _, name := range g.order {
		if strings.HasPrefix(name, prefix) {
			list = append(list, name)
		}
	}
	return list
}
