package upload

import (
	"net/http"
	"strconv"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// registerRoutes takes what would bind a script to a domain, and binds nothing: celld has an address for each app, and a proxy
// in front of it has the domains. A refusal would end wrangler in the middle of a deployment, before it has set crons and
// consumers; so the calls succeed, as `runlot deploy` ignores the key, and an event says what was left out.
func (s *service) registerRoutes(r *wire.Router) {
	const script = wire.Account + "/workers/scripts/{app}"
	for pattern, result := range map[string]any{
		"PUT " + script + "/routes": nil, "PUT " + script + "/domains/records": nil,
		"POST " + script + "/domains/changeset": map[string][]any{"added": {}, "removed": {}, "updated": {}, "conflicting": {}},
	} {
		r.Handle(pattern, access.Deploy, s.ignore(result))
	}
	// Every zone seems to be there, and no route in it.
	r.Handle("GET /zones", access.Read, func(w http.ResponseWriter, c *wire.Call) error {
		name := c.URL.Query().Get("name")
		list := []map[string]string{}
		if name != "" {
			list = append(list, map[string]string{"id": name, "name": name})
		}
		wire.List(w, c, list)
		return nil
	})
	none := func(w http.ResponseWriter, c *wire.Call) error {
		wire.List(w, c, []any{})
		return nil
	}
	r.Handle("GET /zones/{zone}/workers/routes", access.Read, none)
	// Asked for by newer clients: an address, without previews, and objects before a deletion, which go with their script.
	r.Handle("GET "+wire.Account+"/workers/workers/{app}", access.Read, s.known(map[string]any{"subdomain": map[string]bool{"enabled": true, "previews_enabled": false}}))
	r.Handle("GET "+wire.Account+"/workers/durable_objects/namespaces", access.Read, none)
}

// ignore answers for a script that there is, and notes that its routes lead nowhere.
func (s *service) ignore(result any) func(w http.ResponseWriter, c *wire.Call) error {
	return func(w http.ResponseWriter, c *wire.Call) error {
		name := c.PathValue("app")
		if _, err := s.o.Versions.App(c.Context(), name); err != nil {
			return err
		}
		routes, err := wire.Body[any](c)
		if err != nil {
			return err
		}
		detail := map[string]string{"message": "routes and custom domains lead nowhere here: let a proxy in front of celld send them"}
		if list, ok := (*routes).([]any); ok {
			detail["routes"] = strconv.Itoa(len(list))
		}
		e := &deploy.Event{At: time.Now().UTC().Truncate(time.Microsecond), Kind: "routes.ignored", App: name, Author: c.Token.Name, Detail: detail}
		if err := s.o.Versions.AddEvent(wire.Finished(c), e, queue.KeptEvents); err != nil {
			return err
		}
		wire.Answer(w, result)
		return nil
	}
}
