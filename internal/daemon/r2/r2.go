// Package r2 wires the R2 buckets of a node: their files in the state folder, the door through which workers reach them, and
// the queues that are told of what happens in them.
package r2

import (
	"log/slog"
	"net/http"
	"path/filepath"

	"github.com/runlot/runlot/internal/adapter/sqlite/r2"
	"github.com/runlot/runlot/internal/core/app"
	server "github.com/runlot/runlot/internal/server/r2"
)

// Folder is the folder of the buckets in the state folder.
const Folder = "r2"

// Buckets are the R2 buckets of a state folder.
type Buckets struct {
	*r2.Buckets
	door   *server.Door
	teller *teller
}

// New returns the buckets in a state folder. Nothing is made before the first use. send takes the events that rules ask for;
// log takes what workers must not see.
func New(state string, send Send, log *slog.Logger) *Buckets {
	t := newTeller(send, log)
	t.buckets = r2.New(filepath.Join(state, Folder), func(string) { t.Wake() }, log)
	return &Buckets{Buckets: t.buckets, door: server.NewDoor(t.buckets, log), teller: t}
}

// Tell sends what an earlier process left to be sent. It does not wait for that.
func (b *Buckets) Tell() { b.teller.Wake() }

// Close ends the sending of events and closes every bucket. Twice is fine.
func (b *Buckets) Close() {
	b.teller.Close()
	b.Buckets.Close()
}

// Handler returns what serves a worker process's calls: those of its R2 bindings itself, all others through next, which may
// be nil.
func (b *Buckets) Handler(m *app.Manifest, next http.Handler) http.Handler {
	if len(m.R2Buckets) == 0 {
		return next
	}
	if next == nil {
		next = http.NotFoundHandler()
	}
	own := b.door.Handler(m)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(server.Header) != "" {
			own.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
