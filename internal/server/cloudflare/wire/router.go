// Package wire is what every call of Cloudflare's HTTP API has in common here: the check of the token, the envelope around
// answers and errors, pages of lists, and the codes of errors.
package wire

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
)

// Prefix begins the paths of this API.
const Prefix = "/client/v4"

// Account begins the paths below the one account.
const Account = "/accounts/{account}"

// Options are what a Router stands on; all fields are required.
type Options struct {
	Access *access.Keeper
	// Account is the id of the one account. Any other is not found.
	Account string
	Log     *slog.Logger
}

// Router is an http.Handler of the calls that were registered. A call that was not is answered with code 7003.
type Router struct {
	o    Options
	mux  *http.ServeMux
	ends []*regexp.Regexp
}

// NewRouter returns a router without calls.
func NewRouter(o Options) *Router {
	r := &Router{o: o, mux: http.NewServeMux()}
	r.mux.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) {
		answer(w, http.StatusNotFound, nil, &problem{codeUnknownPath, q.Method + " " + strings.TrimPrefix(q.URL.Path, Prefix) + " is not a call of this server"})
	})
	return r
}

// ServeHTTP implements http.Handler.
func (r *Router) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	r.mux.ServeHTTP(w, r.closed(q))
}

// OpenEnd says that in paths which a pattern matches, its second group is one name whatever is in it: some clients write the
// slashes of a name as they are. Both groups together are the path as it was sent.
func (r *Router) OpenEnd(pattern *regexp.Regexp) { r.ends = append(r.ends, pattern) }

// closed is a request whose path ends with one segment where it is one of OpenEnd.
func (r *Router) closed(q *http.Request) *http.Request {
	path := q.URL.EscapedPath()
	for _, pattern := range r.ends {
		parts := pattern.FindStringSubmatch(path)
		if parts == nil {
			continue
		}
		head, errHead := url.PathUnescape(parts[1])
		name, errName := url.PathUnescape(parts[2])
		if errHead != nil || errName != nil {
			continue
		}
		again := *q
		again.URL = new(url.URL)
		*again.URL = *q.URL
		again.URL.Path, again.URL.RawPath = head+name, parts[1]+strings.ReplaceAll(url.PathEscape(name), ".", "%2E")
		return &again
	}
	return q
}

// Call is a request whose token was accepted.
type Call struct {
	*http.Request

	Token *access.Token
}

// Handle registers a call that needs a role; {app} in the pattern is the script that it is about.
func (r *Router) Handle(pattern string, need access.Role, serve func(w http.ResponseWriter, c *Call) error) {
	r.HandleLarge(pattern, need, queue.MaxAPIBody, serve)
}

// HandleLarge is Handle for a call with a body of up to most bytes.
func (r *Router) HandleLarge(pattern string, need access.Role, most int64, serve func(w http.ResponseWriter, c *Call) error) {
	method, path, _ := strings.Cut(pattern, " ")
	r.mux.HandleFunc(method+" "+Prefix+path, func(w http.ResponseWriter, q *http.Request) {
		t, err := r.identify(q)
		if err == nil {
			on := q.PathValue("app")
			if !strings.Contains(path, "{app}") {
				on = t.App // what is about more than one script shows what is the token's
			}
			err = t.Allow(need, on)
		}
		if account := q.PathValue("account"); err == nil && account != "" && account != r.o.Account {
			err = fault.New(fault.NotFound, "account_unknown", "there is no account %s", account).WithHint("this server has one: %s", r.o.Account)
		}
		if err == nil {
			q.Body = http.MaxBytesReader(w, q.Body, most)
			err = serve(w, &Call{q, t})
		}
		if err != nil {
			r.fail(w, q, err)
		}
	})
}

// HandleSecret registers a call that nobody needs a token for: its path holds a secret that another call has answered. It is a
// call without a Token.
func (r *Router) HandleSecret(pattern string, most int64, serve func(w http.ResponseWriter, c *Call) error) {
	method, path, _ := strings.Cut(pattern, " ")
	r.mux.HandleFunc(method+" "+Prefix+path, func(w http.ResponseWriter, q *http.Request) {
		q.Body = http.MaxBytesReader(w, q.Body, most)
		if err := serve(w, &Call{Request: q}); err != nil {
			r.fail(w, q, err)
		}
	})
}

// URL is the address of this API as the caller of a request reaches it: "http" or "ws", and with an s behind a proxy that
// speaks TLS.
func URL(q *http.Request, scheme string) string {
	if q.TLS != nil || strings.EqualFold(q.Header.Get("X-Forwarded-Proto"), "https") {
		scheme += "s"
	}
	return scheme + "://" + q.Host + Prefix
}

func (r *Router) identify(q *http.Request) (*access.Token, error) {
	text, ok := strings.CutPrefix(q.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return nil, fault.New(fault.Invalid, access.CodeUnauthenticated, "this needs a token").WithHint("set CLOUDFLARE_API_TOKEN to one of `runlot token create`")
	}
	return r.o.Access.Authenticate(q.Context(), text)
}

// Body reads the JSON of a call, whatever its content type says: Cloudflare's own tools send it as text. An empty body is
// the zero value.
func Body[T any](c *Call) (*T, error) {
	text, err := io.ReadAll(c.Body)
	if err != nil {
		return nil, fault.New(fault.Limit, "body_size", "the body cannot be read, or is larger than this call takes").WithCause(err)
	}
	return Value[T](text)
}

// Value reads a text of JSON as Body does.
func Value[T any](text []byte) (*T, error) {
	var value T
	if len(text) == 0 {
		return &value, nil
	}
	err := json.Unmarshal(text, &value)
	if _, malformed := errors.AsType[*json.SyntaxError](err); malformed {
		return nil, fault.New(fault.Invalid, queue.CodeBodyMalformed, "the body is no JSON")
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, queue.CodeBodyInvalid, "the body is not the JSON that this call takes").WithCause(err)
	}
	return &value, nil
}

// Stamp writes a time as Cloudflare does.
func Stamp(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// Finished is a context for what is brought to its end also when the caller goes away.
func Finished(c *Call) context.Context { return context.WithoutCancel(c.Context()) }
