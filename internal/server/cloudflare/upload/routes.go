package upload

import (
	"net/http"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// registerRoutes refuses, in words of its own, what would bind a script to a domain: celld has an address for each app, and
// who asked for another one must not believe that it serves.
func (s *service) registerRoutes(r *wire.Router) {
	const script = wire.Account + "/workers/scripts/{app}"
	for _, pattern := range []string{"PUT " + script + "/routes", "PUT " + script + "/domains/records", "POST " + script + "/domains/changeset"} {
		r.Handle(pattern, access.Deploy, func(_ http.ResponseWriter, c *wire.Call) error {
			name := c.PathValue("app")
			if _, err := s.o.Versions.App(c.Context(), name); err != nil {
				return err
			}
			return fault.New(fault.Invalid, "routes_unsupported", "celld has no routes and no custom domains; what was uploaded of %s is live under its own name all the same", name).
				WithHint("leave `routes` out where you deploy to celld (an `env` of its own helps), and let a proxy in front of it send the domain there")
		})
	}
	for _, pattern := range []string{"GET /zones", "GET /zones/{zone}/workers/routes"} {
		r.Handle(pattern, access.Read, func(http.ResponseWriter, *wire.Call) error {
			return fault.New(fault.NotFound, "routes_unsupported", "celld has no zones, so that no route leads to a script").
				WithHint("leave `routes` out where you deploy to celld (an `env` of its own helps), and let a proxy in front of it send the domain there")
		})
	}
	// What newer clients ask for an address: there is one, without previews.
	r.Handle("GET "+wire.Account+"/workers/workers/{app}", access.Read, s.known(map[string]any{"subdomain": map[string]bool{"enabled": true, "previews_enabled": false}}))
	r.Handle("GET "+wire.Account+"/workers/durable_objects/namespaces", access.Read, func(w http.ResponseWriter, c *wire.Call) error {
		wire.List(w, c, []any{}) // asked for by a deletion, which deletes them with their script
		return nil
	})
}
