package cloudflare

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
)

// Prefix begins the paths of this API.
const Prefix = "/client/v4"

// Options are what the API stands on; all fields are required.
type Options struct {
	Deploy   *deploy.Engine
	Versions deploy.Store
	Access   *access.Keeper
	// Account is the id of the one account. Any other is not found.
	Account string
	Log     *slog.Logger
}

// API is an http.Handler of the paths below Prefix.
type API struct {
	o   Options
	mux *http.ServeMux
}

// New returns the API.
func New(o Options) *API {
	a := &API{o: o, mux: http.NewServeMux()}
	a.registerIdentity()
	a.registerScripts()
	a.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		answer(w, http.StatusNotFound, nil, &problem{codeUnknownPath, r.Method + " " + strings.TrimPrefix(r.URL.Path, Prefix) + " is not a call of this server"})
	})
	return a
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	a.mux.ServeHTTP(w, r)
}

// Codes of Cloudflare.
const (
	codeAuthentication = 10000
	codeOther          = 10001
	codeScriptUnknown  = 10007
	codeServiceUnknown = 10090
	codeUnknownPath    = 7003
)

// problem is an error in an envelope.
type problem struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// envelope is around every answer.
type envelope struct {
	Success  bool      `json:"success"`
	Errors   []problem `json:"errors"`
	Messages []string  `json:"messages"`
	Result   any       `json:"result"`
	Info     *info     `json:"result_info,omitempty"`
}

// info is the place of a page in its list.
type info struct {
	Page       int `json:"page"`
	PerPage    int `json:"per_page"`
	Count      int `json:"count"`
	TotalCount int `json:"total_count"`
	TotalPages int `json:"total_pages"`
}

func answer(w http.ResponseWriter, status int, result any, p *problem) {
	e := envelope{Success: p == nil, Errors: []problem{}, Messages: []string{}, Result: result}
	if p != nil {
		e.Errors = append(e.Errors, *p)
	}
	send(w, status, &e)
}

func send(w http.ResponseWriter, status int, e *envelope) {
	text, err := json.Marshal(e)
	if err != nil {
		panic("cloudflare: an envelope always marshals: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// list answers with a page of a whole list. Some clients ask for the next page until one is empty.
func list[T any](w http.ResponseWriter, r *http.Request, all []T) {
	page, perPage := number(r, "page", 1), number(r, "per_page", max(len(all), 1))
	total := len(all)
	from := min((page-1)*perPage, total)
	part := all[from:min(from+perPage, total)]
	if part == nil {
		part = []T{}
	}
	send(w, http.StatusOK, &envelope{
		Success: true, Errors: []problem{}, Messages: []string{}, Result: part,
		Info: &info{Page: page, PerPage: perPage, Count: len(part), TotalCount: total, TotalPages: (total + perPage - 1) / perPage},
	})
}

// number reads a query parameter that counts from 1.
func number(r *http.Request, name string, otherwise int) int {
	n, err := strconv.Atoi(r.URL.Query().Get(name))
	if err != nil || n < 1 || n > queue.MaxPage {
		return otherwise
	}
	return n
}

// call is a request whose token was accepted.
type call struct {
	*http.Request

	token *access.Token
}

// handle registers a call that needs a role; {app} in the pattern is the script that it is about.
func (a *API) handle(pattern string, need access.Role, serve func(w http.ResponseWriter, c *call) error) {
	method, path, _ := strings.Cut(pattern, " ")
	a.mux.HandleFunc(method+" "+Prefix+path, func(w http.ResponseWriter, r *http.Request) {
		t, err := a.identify(r)
		if err == nil {
			on := r.PathValue("app")
			if !strings.Contains(path, "{app}") {
				on = t.App // what is about every script shows those of the token
			}
			err = t.Allow(need, on)
		}
		if account := r.PathValue("account"); err == nil && account != "" && account != a.o.Account {
			err = fault.New(fault.NotFound, "account_unknown", "there is no account %s", account).WithHint("this server has one: %s", a.o.Account)
		}
		if err == nil {
			r.Body = http.MaxBytesReader(w, r.Body, queue.MaxAPIBody)
			err = serve(w, &call{r, t})
		}
		if err != nil {
			a.fail(w, r, err)
		}
	})
}

func (a *API) identify(r *http.Request) (*access.Token, error) {
	text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return nil, fault.New(fault.Invalid, access.CodeUnauthenticated, "this needs a token").WithHint("set CLOUDFLARE_API_TOKEN to one of `runlot token create`")
	}
	return a.o.Access.Authenticate(r.Context(), text)
}

// fail answers with an error. Its status decides in some clients whether they try again: a conflict is no reason to.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	f := fault.From(err)
	status, code := http.StatusBadRequest, codeOther
	switch f.Kind {
	case fault.Invalid, fault.Conflict, fault.Limit:
	case fault.NotFound:
		status = http.StatusNotFound
	case fault.Unavailable, fault.Timeout:
		status = http.StatusServiceUnavailable
	case fault.Environment, fault.Internal:
		status = http.StatusInternalServerError
	}
	switch f.Code {
	case access.CodeUnauthenticated:
		status, code = http.StatusUnauthorized, codeAuthentication
	case access.CodeForbidden:
		status, code = http.StatusForbidden, codeAuthentication
	case deploy.CodeAppUnknown, deploy.CodeVersionUnknown, deploy.CodeSecretUnknown:
		code = codeScriptUnknown
	case codeService:
		code = codeServiceUnknown
	}
	if f.Kind == fault.Internal {
		a.o.Log.Error("a call failed", "method", r.Method, "path", r.URL.Path, "error", fault.Detail(err))
	}
	answer(w, status, nil, &problem{code, f.Error()})
}

// codeService is the code of the fault that a script is unknown, where clients ask for it as a service.
const codeService = "service_unknown"

// body reads the JSON of a call, whatever its content type says: Cloudflare's own tools send it as text.
func body[T any](c *call) (*T, error) {
	text, err := io.ReadAll(c.Body)
	if err != nil {
		return nil, fault.New(fault.Limit, "body_size", "the body cannot be read, or has more than %d bytes", queue.MaxAPIBody).WithCause(err)
	}
	var value T
	if err := json.Unmarshal(text, &value); err != nil {
		return nil, fault.New(fault.Invalid, "body_invalid", "the body is not the JSON that this call takes").WithCause(err)
	}
	return &value, nil
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// finished is a context for what is brought to its end also when the caller goes away.
func finished(c *call) context.Context { return context.WithoutCancel(c.Context()) }
