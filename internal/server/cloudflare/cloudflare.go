package cloudflare

import (
	"log/slog"
	"net/http"

	"github.com/runlot/runlot/internal/core/app"
	core "github.com/runlot/runlot/internal/core/d1"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/engine/subscribe"
	follow "github.com/runlot/runlot/internal/engine/tail"
	"github.com/runlot/runlot/internal/server/cloudflare/d1"
	"github.com/runlot/runlot/internal/server/cloudflare/kv"
	"github.com/runlot/runlot/internal/server/cloudflare/queues"
	"github.com/runlot/runlot/internal/server/cloudflare/r2"
	"github.com/runlot/runlot/internal/server/cloudflare/subscriptions"
	"github.com/runlot/runlot/internal/server/cloudflare/tail"
	"github.com/runlot/runlot/internal/server/cloudflare/upload"
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
	D1       d1.Databases
	// Subscriptions are the event subscriptions.
	Subscriptions *subscribe.Engine
	// EncodeD1 writes results of D1 as JSON, for each statement its rows as objects, and its meta.
	EncodeD1 func(results []core.Result) []byte
	KV       kv.Namespaces
	R2       r2.Buckets
	// Compile makes a manifest of the text of a configuration file; env is an environment of a wrangler file, or "".
	Compile func(file string, text []byte, env string) (*app.Manifest, []string, error)
	// Subdomain is what stands between the name of an app and ".workers.dev" where wrangler prints its address.
	Subdomain string
	// Account is the id of the one account. Any other is not found.
	Account string
	// Tails hands on the invocations of scripts.
	Tails *follow.Hub
	Log   *slog.Logger
}

// API is an http.Handler of the paths below Prefix.
type API struct {
	*wire.Router

	o     Options
	tails *tail.Tails
}

// Stop ends the connections that would outlive the server, and Wait also waits for their end.
func (a *API) Stop() { a.tails.Stop() }

// Wait is described at Stop.
func (a *API) Wait() { a.tails.Wait() }

// New returns the API.
func New(o Options) *API {
	a := &API{Router: wire.NewRouter(wire.Options{Access: o.Access, Account: o.Account, Log: o.Log}), o: o}
	a.registerIdentity()
	a.registerScripts()
	upload.Register(a.Router, upload.Options{Deploy: o.Deploy, Versions: o.Versions, Compile: o.Compile, Running: o.Queues.Manifests, Subdomain: o.Subdomain})
	d1.Register(a.Router, d1.Options{Databases: o.D1, Encode: o.EncodeD1, Running: o.Queues.Manifests, Events: o.Versions, Log: o.Log})
	found := queues.Register(a.Router, queues.Options{Queues: o.Queues, Scripts: o.Deploy, Events: o.Versions, Log: o.Log})
	subscriptions.Register(a.Router, subscriptions.Options{Engine: o.Subscriptions, Queues: found, Events: o.Versions, Running: o.Queues.Manifests, Log: o.Log})
	kv.Register(a.Router, kv.Options{Namespaces: o.KV, Running: o.Queues.Manifests, Events: o.Versions, Log: o.Log})
	a.tails = tail.Register(a.Router, tail.Options{Hub: o.Tails, Versions: o.Versions, Access: o.Access, Log: o.Log})
	buckets := r2.Register(a.Router, r2.Options{Buckets: o.R2, Queues: found, Running: o.Queues.Manifests, Events: o.Versions, Log: o.Log})
	a.Handle("POST /graphql", access.Read, statistics(buckets))
	return a
}

var _ http.Handler = (*API)(nil)
