// Package kv wires the KV namespaces of a node: their files in the state folder and the door through which workers reach
// them.
package kv

import (
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/runlot/runlot/internal/adapter/sqlite/kv"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/d1"
	server "github.com/runlot/runlot/internal/server/kv"
)

// Folder is the folder of the namespaces in the state folder.
const Folder = "kv"

// Namespaces are the KV namespaces of a state folder.
type Namespaces struct {
	*kv.Namespaces
	door *server.Door
}

// New returns the namespaces in a state folder. Nothing is made before the first use. log takes what workers must not see.
func New(state string, log *slog.Logger) *Namespaces {
	files := kv.New(filepath.Join(state, Folder), log)
	return &Namespaces{Namespaces: files, door: server.NewDoor(files, log)}
}

// Identities are those of the namespaces that were ever used. One whose identity is no plain name of a file is left out: it is
// known by the app that declares it.
func (n *Namespaces) Identities() ([]string, error) {
	files, err := n.Files()
	var list []string
	for _, name := range files {
		if identity := strings.TrimSuffix(name, filepath.Ext(name)); d1.FileName(identity) == name {
			list = append(list, identity)
		}
	}
	return list, err
}

// Handler returns what serves a worker process's calls: those of its KV bindings itself, all others through next, which may
// be nil.
func (n *Namespaces) Handler(m *app.Manifest, next http.Handler) http.Handler {
	if len(m.KVNamespaces) == 0 {
		return next
	}
	if next == nil {
		next = http.NotFoundHandler()
	}
	own := n.door.Handler(m)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(server.Header) != "" {
			own.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
