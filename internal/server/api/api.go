package api

import (
	"log/slog"
	"net/http"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/engine/notify"
	"github.com/runlot/runlot/internal/engine/operations"
	"github.com/runlot/runlot/internal/engine/subscribe"
	"github.com/runlot/runlot/internal/server/api/apps"
	"github.com/runlot/runlot/internal/server/api/crons"
	"github.com/runlot/runlot/internal/server/api/d1"
	"github.com/runlot/runlot/internal/server/api/endpoint"
	"github.com/runlot/runlot/internal/server/api/notices"
	background "github.com/runlot/runlot/internal/server/api/operations"
	"github.com/runlot/runlot/internal/server/api/queues"
	"github.com/runlot/runlot/internal/server/api/reach"
	"github.com/runlot/runlot/internal/server/api/replay"
	"github.com/runlot/runlot/internal/server/api/series"
	"github.com/runlot/runlot/internal/server/api/subscriptions"
	"github.com/runlot/runlot/internal/server/api/undo"
)

// Options are what the API stands on. All fields are required, but for Deploy, Versions, Instance and Compile where no
// versions are kept: then there are no calls about apps, and no events.
type Options struct {
	Deploy   *deploy.Engine
	Versions deploy.Store
	Access   *access.Keeper
	Instance apps.Instance
	Queues   reach.Queues
	// Remover deletes queues.
	Remover reach.Remover
	Compile apps.Compiler
	Crons   crons.Instance
	D1      d1.Databases
	// Replays are the store and the sealer of answers to calls with an idempotency key, and the name of this node.
	Replays replay.Options
	// Operations is what goes on in the background.
	Operations *operations.Engine
	// Outbox holds what operators are told.
	Outbox notify.Outbox
	// Subscriptions are the event subscriptions; nil has none.
	Subscriptions *subscribe.Engine
	// Version is that of the server, Account the id of its one account in Cloudflare's paths.
	Version string
	Account string
	Log     *slog.Logger
	// Observe is told of the calls; nil is nobody.
	Observe endpoint.Observer
	// Metrics shows the numbers of the instance; nil does not.
	Metrics http.Handler
}

// API is an http.Handler.
type API struct {
	o    Options
	mux  *http.ServeMux
	door *endpoint.Door
}

// Prefix is the beginning of the paths of all calls, and MetricsPath is where the numbers for Prometheus are.
const (
	Prefix      = "/v1/"
	MetricsPath = "/metrics"
)

// New returns the API.
func New(o Options) *API {
	mux := http.NewServeMux()
	a := &API{o: o, mux: mux, door: endpoint.New(mux, o.Version, o.Access, o.Replays, o.Observe, o.Log)}
	a.registerIdentity()
	if o.Versions != nil {
		apps.Register(a.door, apps.Options{Deploy: o.Deploy, Versions: o.Versions, Instance: o.Instance, Compile: o.Compile})
	}
	to := &reach.Reach{Queues: o.Queues, Remover: o.Remover, Events: o.Versions, Log: o.Log}
	queues.Register(a.door, to)
	background.Register(a.door, to, o.Operations)
	undo.Register(a.door, to)
	series.Register(a.door, to)
	crons.Register(a.door, o.Crons, o.Versions, o.Log)
	databases := d1.Options{Databases: o.D1, Manifests: o.Queues.Manifests, Events: o.Versions, Log: o.Log}
	if o.Versions != nil {
		databases.Versions = o.Versions
	}
	d1.Register(a.door, databases)
	if o.Subscriptions != nil {
		subscriptions.Register(a.door, to, o.Subscriptions)
	}
	if o.Outbox != nil {
		notices.Register(a.door, o.Outbox)
	}
	a.serveOpenAPI()
	a.serveMetrics()
	a.mux.HandleFunc("/", a.unknown)
	return a
}

// OpenAPI is the document that describes the API, as JSON.
func (a *API) OpenAPI() ([]byte, error) { return a.door.OpenAPI() }

func (a *API) serveOpenAPI() {
	text, err := a.OpenAPI()
	if err != nil {
		panic("api: the OpenAPI document always marshals: " + err.Error())
	}
	a.mux.HandleFunc("GET /v1/openapi.json", func(w http.ResponseWriter, r *http.Request) {
		if _, err := a.door.Identify(r.Context(), r.Header.Get("Authorization")); err != nil {
			endpoint.WriteFault(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text)
	})
}

// serveMetrics shows the numbers of the instance to who may read all of it.
func (a *API) serveMetrics() {
	if a.o.Metrics == nil {
		return
	}
	a.mux.HandleFunc("GET "+MetricsPath, func(w http.ResponseWriter, r *http.Request) {
		token, err := a.door.Identify(r.Context(), r.Header.Get("Authorization"))
		if err == nil {
			err = token.Allow(access.Read, "")
		}
		if err != nil {
			endpoint.WriteFault(w, err)
			return
		}
		a.o.Metrics.ServeHTTP(w, r)
	})
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	a.mux.ServeHTTP(w, r)
}

// unknown answers what no path is for.
func (a *API) unknown(w http.ResponseWriter, r *http.Request) {
	endpoint.WriteFault(w, fault.New(fault.NotFound, "path_unknown", "%s %s is not a call of this server", r.Method, r.URL.Path).
		WithHint("GET /v1/openapi.json describes those that there are"))
}
