package cloudflare

import (
	"log/slog"
	"net/http"

	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/server/cloudflare/queues"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// Prefix begins the paths of this API.
const Prefix = wire.Prefix

// Options are what the API stands on; all fields are required.
type Options struct {
	Deploy   *deploy.Engine
	Versions deploy.Store
	Access   *access.Keeper
	Queues   queues.Queues
	// Account is the id of the one account. Any other is not found.
	Account string
	Log     *slog.Logger
}

// API is an http.Handler of the paths below Prefix.
type API struct {
	*wire.Router

	o Options
}

// New returns the API.
func New(o Options) *API {
	a := &API{wire.NewRouter(wire.Options{Access: o.Access, Account: o.Account, Log: o.Log}), o}
	a.registerIdentity()
	a.registerScripts()
	queues.Register(a.Router, queues.Options{Queues: o.Queues, Scripts: o.Deploy, Events: o.Versions, Log: o.Log})
	return a
}

var _ http.Handler = (*API)(nil)
