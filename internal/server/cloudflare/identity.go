package cloudflare

import (
	"net/http"

	"github.com/runlot/runlot/internal/engine/access"
)

type account struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func (a *API) registerIdentity() {
	one := account{a.o.Account, "celld"}
	a.handle("GET /user/tokens/verify", access.Read, func(w http.ResponseWriter, c *call) error {
		answer(w, http.StatusOK, map[string]string{"id": c.token.ID, "status": "active"}, nil)
		return nil
	})
	a.handle("GET /user", access.Read, func(w http.ResponseWriter, c *call) error {
		answer(w, http.StatusOK, map[string]string{"id": c.token.ID, "email": c.token.Name}, nil)
		return nil
	})
	a.handle("GET /accounts", access.Read, func(w http.ResponseWriter, c *call) error {
		list(w, c.Request, []account{one})
		return nil
	})
	a.handle("GET /accounts/{account}", access.Read, func(w http.ResponseWriter, _ *call) error {
		answer(w, http.StatusOK, one, nil)
		return nil
	})
	a.handle("GET /memberships", access.Read, func(w http.ResponseWriter, c *call) error {
		roles := map[access.Role]string{access.Admin: "Administrator", access.Deploy: "Workers Admin", access.Read: "Administrator Read Only"}
		list(w, c.Request, []map[string]any{{"id": c.token.ID, "account": one, "roles": []string{roles[c.token.Role]}}})
		return nil
	})
}
