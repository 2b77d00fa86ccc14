package endpoint

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/server/api/replay"
)

// Door is where calls are registered. It lets a caller through whose token has the role that the call needs.
type Door struct {
	api    huma.API
	access *access.Keeper
	log    *slog.Logger
}

// Observer is told of each call that was answered, by the id of its operation.
type Observer func(operation string, status int)

// New returns a door whose calls are answered by mux. The version is that of the server. What replays need beside a store is
// the door's to say. A nil observer is nobody.
func New(mux *http.ServeMux, version string, keeper *access.Keeper, replays replay.Options, observe Observer, log *slog.Logger) *Door {
	ShapeErrors()
	d := &Door{access: keeper, log: log}
	config := huma.DefaultConfig("celld", version)
	config.Info.Description = "Apps, queues and messages of a celld. Calls carry a token: `Authorization: Bearer …`. " +
		"A POST with an `Idempotency-Key` that was answered before, within a day, gets the same answer and has no further effect, also after a " +
		"restart. While the first is under way, the second waits for its answer. A key belongs to the token."
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	config.CreateHooks = nil // no $schema fields in answers
	config.Formats = map[string]huma.Format{"application/json": plainJSON, "json": plainJSON}
	config.RejectUnknownQueryParameters = true
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}}
	config.Security = []map[string][]string{{"token": {}}}
	d.api = humago.New(mux, config)
	if observe != nil {
		d.api.UseMiddleware(observe.middleware)
	}
	replays.Owner, replays.Refuse, replays.Log = func(ctx context.Context) string { return Caller(ctx).ID }, d.refuse, log
	d.api.UseMiddleware(d.authenticate, replay.New(replays).Middleware)
	return d
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

// OpenAPI is the document that describes the calls, as JSON.
func (d *Door) OpenAPI() ([]byte, error) { return json.MarshalIndent(d.api.OpenAPI(), "", "  ") }

// keys of what a call carries along.
type contextKey int

const (
	tokenKey contextKey = iota
	writerKey
)

// TakeTime lets a call take as long as it has to from now on: it has arrived, and ends when its caller goes away.
func TakeTime(ctx context.Context) {
	if w, ok := ctx.Value(writerKey).(http.ResponseWriter); ok {
		// A writer that has no deadlines needs no such care.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	}
}

// Caller is the token of a call.
func Caller(ctx context.Context) *access.Token {
	t, _ := ctx.Value(tokenKey).(*access.Token)
	return t
}

// Author is who a change is recorded for.
func Author(ctx context.Context) string { return Caller(ctx).Name }

// Metadata of an operation.
const (
	needRole = "role"
	// AnyApp says that a token for one app may make the call, and that the handler leaves out what is not its.
	AnyApp = "any app"
)

// Identify finds the token of a call.
func (d *Door) Identify(ctx context.Context, header string) (*access.Token, error) {
	text, ok := strings.CutPrefix(header, "Bearer ")
	if !ok {
		return nil, fault.New(fault.Invalid, access.CodeUnauthenticated, "this needs a token").
			WithHint("send it as `Authorization: Bearer TOKEN`; `runlot login` keeps one for the command line")
	}
	return d.access.Authenticate(ctx, text)
}

// authenticate lets calls through that have a token with the role that they need.
func (d *Door) authenticate(ctx huma.Context, next func(huma.Context)) {
	t, err := d.Identify(ctx.Context(), ctx.Header("Authorization"))
	if err != nil {
		d.refuse(ctx, err)
		return
	}
	op := ctx.Operation()
	role, _ := op.Metadata[needRole].(access.Role)
	on := ctx.Param("app")
	if op.Metadata[AnyApp] != nil {
		on = t.App
	}
	if err := t.Allow(role, on); err != nil {
		d.refuse(ctx, err)
		return
	}
	_, w := humago.Unwrap(ctx)
	next(huma.WithValue(huma.WithValue(ctx, tokenKey, t), writerKey, w))
}

func (d *Door) refuse(ctx huma.Context, err error) {
	r, w := humago.Unwrap(ctx)
	d.note(r, err)
	WriteFault(w, err)
}

// note writes what is nobody's fault but ours to the log.
func (d *Door) note(r *http.Request, err error) {
	if fault.KindOf(err) == fault.Internal {
		d.log.Error("a call failed", "method", r.Method, "path", r.URL.Path, "error", fault.Detail(err))
	}
}

// Call registers an operation. The input's path and query parameters and body are those of huma.
func Call[I, O any](d *Door, need access.Role, op huma.Operation, handle func(ctx context.Context, in *I) (*O, error)) {
	if op.Metadata == nil {
		op.Metadata = map[string]any{}
	}
	op.Metadata[needRole] = need
	if op.MaxBodyBytes == 0 {
		op.MaxBodyBytes = queue.MaxAPIBody
	}
	op.BodyReadTimeout = queue.APIBodyTime
	op.Description = strings.TrimSpace(op.Description + "\n\nNeeds the role " + string(need) + ".")
	huma.Register(d.api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := handle(ctx, in)
		if err != nil {
			if fault.KindOf(err) == fault.Internal {
				d.log.Error("a call failed", "operation", op.OperationID, "error", fault.Detail(err))
			}
			return nil, failure(err)
		}
		return out, nil
	})
}

// Body is an output of one JSON value.
type Body[T any] struct{ Body T }

// Answer is an output of v.
func Answer[T any](v T) *Body[T] { return &Body[T]{v} }

// List is an output of a list.
type List[T any] struct {
	Body struct {
		Items []T `json:"items"`
	}
}

// ListOf is an output of the items; none are an empty list.
func ListOf[T any](items []T) *List[T] {
	out := &List[T]{}
	out.Body.Items = items
	if items == nil {
		out.Body.Items = []T{}
	}
	return out
}

// AppPath is the input of a call about one app.
type AppPath struct {
	App string `path:"app" maxLength:"255"`
}

// PageQuery is the input of a list with pages.
type PageQuery struct {
	Before int64 `query:"before" minimum:"0" doc:"Only entries with lower numbers: the last one of the page before."`
	Limit  int   `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}
