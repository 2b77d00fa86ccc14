package cloudflare

import (
	"net/http"

	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

type account struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func (a *API) registerIdentity() {
	one := account{a.o.Account, "celld"}
	a.Handle("GET /user/tokens/verify", access.Read, func(w http.ResponseWriter, c *wire.Call) error {
		wire.Answer(w, map[string]string{"id": c.Token.ID, "status": "active"})
		return nil
	})
	a.Handle("GET /user", access.Read, func(w http.ResponseWriter, c *wire.Call) error {
		wire.Answer(w, map[string]string{"id": c.Token.ID, "email": c.Token.Name})
		return nil
	})
	a.Handle("GET /accounts", access.Read, func(w http.ResponseWriter, c *wire.Call) error {
		wire.List(w, c, []account{one})
		return nil
	})
	a.Handle("GET /accounts/{account}", access.Read, func(w http.ResponseWriter, _ *wire.Call) error {
		wire.Answer(w, one)
		return nil
	})
	a.Handle("GET /memberships", access.Read, func(w http.ResponseWriter, c *wire.Call) error {
		roles := map[access.Role]string{access.Admin: "Administrator", access.Deploy: "Workers Admin", access.Read: "Administrator Read Only"}
		wire.List(w, c, []map[string]any{{"id": c.Token.ID, "account": one, "roles": []string{roles[c.Token.Role]}}})
		return nil
	})
}
