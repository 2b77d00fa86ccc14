package session

import (
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// Tries bounds the sign-ins that are refused, by the address that they come from. The zero value is ready.
type Tries struct {
	mu    sync.Mutex
	since map[string]*window // guarded by mu
}

type window struct {
	began time.Time
	count int
}

// Wait is how long an address may not try any more; 0 when it may.
func (t *Tries) Wait(r *http.Request) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.since[address(r)]
	if w == nil || w.count < queue.SignInTries {
		return 0
	}
	return max(0, queue.SignInWindow-time.Since(w.began))
}

// Refused counts a try that was refused.
func (t *Tries) Refused(r *http.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since == nil {
		t.since = map[string]*window{}
	}
	from := address(r)
	w := t.since[from]
	if w == nil || time.Since(w.began) >= queue.SignInWindow {
		if w == nil && len(t.since) >= queue.SignInClients {
			t.forget()
		}
		w = &window{began: time.Now()}
		t.since[from] = w
	}
	w.count++
}

// forget makes room for one address. The caller holds mu.
func (t *Tries) forget() {
	oldest := ""
	for from, w := range t.since {
		if oldest == "" || w.began.Before(t.since[oldest].began) {
			oldest = from
		}
	}
	delete(t.since, oldest)
}

func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
