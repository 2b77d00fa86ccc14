package api

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/server/api/replay"
)

// Instance is what the API asks of what runs.
type Instance interface {
	// Apps describes how the apps are doing, by name. Those that are not in it are stopped.
	Apps(ctx context.Context) (map[string]Running, error)
	// URLs are the public addresses of an app.
	URLs(appName string) []string
}

// Options are what the API stands on. All fields are required, but for Deploy, Versions, Instance and Compile where no
// versions are kept: then there are no calls about apps, and no events.
type Options struct {
	Deploy   *deploy.Engine
	Versions deploy.Store
	Access   *access.Keeper
	Instance Instance
	Queues   Queues
	// Compile makes a manifest of the text of a configuration file, chosen by its name; env is an environment of a wrangler
	// file, or "".
	Compile func(file string, text []byte, env string) (m *app.Manifest, warnings []string, err error)
	// Version is that of the server, Account the id of its one account in Cloudflare's paths.
	Version string
	Account string
	Log     *slog.Logger
}

// API is an http.Handler.
type API struct {
	o   Options
	mux *http.ServeMux
	api huma.API
}

// New returns the API.
func New(o Options) *API {
	shapeErrors()
	a := &API{o: o, mux: http.NewServeMux()}
	config := huma.DefaultConfig("celld", o.Version)
	config.Info.Description = "Apps, queues and messages of a celld. Calls carry a token: `Authorization: Bearer …`. " +
		"A POST with an `Idempotency-Key` that was answered before gets the same answer and has no further effect."
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	config.CreateHooks = nil // no $schema fields in answers
	config.Formats = map[string]huma.Format{"application/json": plainJSON, "json": plainJSON}
	config.RejectUnknownQueryParameters = true
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}}
	config.Security = []map[string][]string{{"token": {}}}
	a.api = humago.New(a.mux, config)
	owner := func(ctx context.Context) string { return caller(ctx).ID }
	a.api.UseMiddleware(a.authenticate, replay.New().Middleware(owner, a.refuse))
	a.registerIdentity()
	if o.Versions != nil {
		a.registerApps()
		a.registerSecrets()
	}
	a.registerQueues()
	a.registerMessages()
	a.registerBatches()
	a.serveOpenAPI()
	a.mux.HandleFunc("/", a.unknown)
	return a
}

// plainJSON writes < and > as they are, since bodies of messages hold them.
var plainJSON = huma.Format{
	Marshal: func(w io.Writer, v any) error {
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(v)
	},
	Unmarshal: json.Unmarshal,
}

// OpenAPI is the document that describes the API, as JSON.
func (a *API) OpenAPI() ([]byte, error) { return json.MarshalIndent(a.api.OpenAPI(), "", "  ") }

func (a *API) serveOpenAPI() {
	text, err := a.OpenAPI()
	if err != nil {
		panic("api: the OpenAPI document always marshals: " + err.Error())
	}
	a.mux.HandleFunc("GET /v1/openapi.json", func(w http.ResponseWriter, r *http.Request) {
		if _, err := a.identify(r.Context(), r.Header.Get("Authorization")); err != nil {
			writeFault(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text)
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
	writeFault(w, fault.New(fault.NotFound, "path_unknown", "%s %s is not a call of this server", r.Method, r.URL.Path).
		WithHint("GET /v1/openapi.json describes those that there are"))
}

// keys of what a call carries along.
type contextKey int

const tokenKey contextKey = iota

// caller is the token of a call.
func caller(ctx context.Context) *access.Token {
	t, _ := ctx.Value(tokenKey).(*access.Token)
	return t
}

// author is who a change is recorded for.
func author(ctx context.Context) string { return caller(ctx).Name }

// Metadata of an operation.
const (
	needRole = "role"
	// anyApp says that a token for one app may make the call, and that the handler leaves out what is not its.
	anyApp = "any app"
)

// identify finds the token of a call.
func (a *API) identify(ctx context.Context, header string) (*access.Token, error) {
	text, ok := strings.CutPrefix(header, "Bearer ")
	if !ok {
		return nil, fault.New(fault.Invalid, access.CodeUnauthenticated, "this needs a token").
			WithHint("send it as `Authorization: Bearer TOKEN`; `runlot login` keeps one for the command line")
	}
	return a.o.Access.Authenticate(ctx, text)
}

// authenticate lets calls through that have a token with the role that they need.
func (a *API) authenticate(ctx huma.Context, next func(huma.Context)) {
	t, err := a.identify(ctx.Context(), ctx.Header("Authorization"))
	if err != nil {
		a.refuse(ctx, err)
		return
	}
	op := ctx.Operation()
	role, _ := op.Metadata[needRole].(access.Role)
	on := ctx.Param("app")
	if op.Metadata[anyApp] != nil {
		on = t.App
	}
	if err := t.Allow(role, on); err != nil {
		a.refuse(ctx, err)
		return
	}
	next(huma.WithValue(ctx, tokenKey, t))
}

func (a *API) refuse(ctx huma.Context, err error) {
	r, w := humago.Unwrap(ctx)
	a.note(r, err)
	writeFault(w, err)
}

// note writes what is nobody's fault but ours to the log.
func (a *API) note(r *http.Request, err error) {
	if fault.KindOf(err) == fault.Internal {
		a.o.Log.Error("a call failed", "method", r.Method, "path", r.URL.Path, "error", fault.Detail(err))
	}
}

// call registers an operation. The input's path and query parameters and body are those of huma.
func call[I, O any](a *API, need access.Role, op huma.Operation, handle func(ctx context.Context, in *I) (*O, error)) {
	if op.Metadata == nil {
		op.Metadata = map[string]any{}
	}
	op.Metadata[needRole] = need
	if op.MaxBodyBytes == 0 {
		op.MaxBodyBytes = queue.MaxAPIBody
	}
	op.BodyReadTimeout = queue.APIBodyTime
	op.Description = strings.TrimSpace(op.Description + "\n\nNeeds the role " + string(need) + ".")
	huma.Register(a.api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := handle(ctx, in)
		if err != nil {
			if fault.KindOf(err) == fault.Internal {
				a.o.Log.Error("a call failed", "operation", op.OperationID, "error", fault.Detail(err))
			}
			return nil, failure(err)
		}
		return out, nil
	})
}

// body is an output of one JSON value.
type body[T any] struct{ Body T }

// listBody is an output of a list.
type listBody[T any] struct {
	Body struct {
		Items []T `json:"items"`
	}
}

func listOf[T any](items []T) *listBody[T] {
	out := &listBody[T]{}
	out.Body.Items = items
	if items == nil {
		out.Body.Items = []T{}
	}
	return out
}
