package celld

import (
	"fmt"
	"net/http"
)

// healthPath answers whether the daemon serves, under any host name.
const healthPath = "/.well-known/celld/health"

// router sends a request to the app that its host name names.
func (d *doors) router() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == healthPath {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "no-store")
			_, _ = fmt.Fprintln(w, `{"status":"ok"}`)
			return
		}
		if door := d.fleet.door(d.fleet.pattern.app(r.Host)); door != nil {
			door.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, fmt.Sprintf("no app is here under this host name\n\nApps are reached as %s once they are deployed with `runlot deploy`.",
			d.fleet.pattern.url("NAME")), http.StatusNotFound)
	})
}
