// Package dashboard is the page for operators. It knows nothing that the API does not say: it calls the API in this program
// with the token of whoever is signed in, and so everybody sees and changes what their token opens.
//
// A page is a method that looks at the API and returns what is shown; see [Dashboard.page] for how one is added. An action
// is a method that calls the API and names what was done; see [Dashboard.action].
package dashboard

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/server/dashboard/assets"
	"github.com/runlot/runlot/internal/server/dashboard/inside"
	"github.com/runlot/runlot/internal/server/dashboard/live"
	"github.com/runlot/runlot/internal/server/dashboard/messages"
	"github.com/runlot/runlot/internal/server/dashboard/session"
	"github.com/runlot/runlot/internal/server/dashboard/view"
)

// Options are what the page stands on. All fields are required.
type Options struct {
	// API answers the calls of the paths that begin with /v1/.
	API    http.Handler
	Sealer session.Sealer
	Log    *slog.Logger
}

// Dashboard is an http.Handler.
type Dashboard struct {
	o        Options
	api      *client.Client
	sessions session.Keeper
	tries    session.Tries
	hub      *live.Hub
	files    *assets.Files
	mux      *http.ServeMux
	handler  http.Handler
}

// New returns the page.
func New(o Options) *Dashboard {
	api, err := client.New("http://inside", "")
	if err != nil {
		panic("dashboard: the address is always one: " + err.Error())
	}
	d := &Dashboard{
		o: o, api: api.Through(&inside.Transport{Handler: o.API}), sessions: session.Keeper{Sealer: o.Sealer}, hub: live.NewHub(), files: assets.Embedded(),
		mux: http.NewServeMux(),
	}
	d.routes()
	d.handler = http.NewCrossOriginProtection().Handler(d.mux)
	return d
}

// Stop ends the streams of views that are open, so that the server can be shut down.
func (d *Dashboard) Stop() { d.hub.Stop() }

func (d *Dashboard) routes() {
	d.mux.Handle("GET "+assets.Prefix, d.files)
	d.mux.HandleFunc("GET /login", d.loginForm)
	d.mux.HandleFunc("POST /login", d.login)
	d.mux.HandleFunc("POST /logout", d.logout)
	d.mux.HandleFunc("GET /favicon.ico", http.NotFound)
	d.page("/{$}", d.apps)
	d.page("/queues", d.allQueues)
	d.page("/apps/{app}", d.overview)
	d.page("/apps/{app}/queues", d.appQueues)
	d.page("/apps/{app}/scheduled", d.scheduled)
	d.page("/apps/{app}/versions", d.versions)
	d.page("/apps/{app}/logs", d.logs)
	d.page("/databases/{database}/queues/{queue}", d.queue)
	d.action("/databases/{database}/queues/{queue}/pause", d.pause)
	d.action("/databases/{database}/queues/{queue}/resume", d.resume)
	d.page("/databases/{database}/queues/{queue}/messages", d.messages)
	d.page("/databases/{database}/queues/{queue}/messages/{id}", d.message)
	d.action("/databases/{database}/queues/{queue}/messages/{verb}", d.change)
	d.action("/apps/{app}/rollback", d.rollback)
	d.action("/apps/{app}/run", d.runCron)
	d.page("/", func(_ context.Context, v *visit) (*page, error) {
		return nil, &client.Error{Status: http.StatusNotFound, Code: "page_unknown", Message: "there is no page " + v.r.URL.Path}
	})
}

// The policy lets nothing in that this program does not serve itself, and no script or style in the text of a page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP implements http.Handler.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	d.handler.ServeHTTP(w, r)
}

// visit is a request of somebody who is signed in.
type visit struct {
	r   *http.Request
	api *client.Client
	who *client.Whoami
	q   url.Values
}

// may reports whether the token changes things. The API decides; this only spares people buttons that would be refused.
func (v *visit) may() bool { return v.who.Token.Role != "read" }

// here is the address of this view with parameters changed: pairs of a name and a value, "" to leave it out.
func (v *visit) here(pairs ...string) string {
	q := url.Values{}
	maps.Copy(q, v.q)
	for i := 0; i+1 < len(pairs); i += 2 {
		if q.Del(pairs[i]); pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return v.path()
	}
	return v.path() + "?" + q.Encode()
}

// path is that of the page, also for its stream.
func (v *visit) path() string { return pagePath(v.r) }

func pagePath(r *http.Request) string {
	path := r.URL.EscapedPath()
	if rest, ok := strings.CutPrefix(path, livePrefix+"/"); ok {
		return "/" + rest
	}
	return path
}

// page is what a page shows.
type page struct {
	// Title is its name, and Section the entry of the main navigation that it belongs to: "apps" or "queues".
	Title, Section string
	// App has the tabs of an app shown, with Tab as the present one.
	App *client.App
	Tab string
	// Template draws the content from Data. It draws each of the fragments too, each an element with the fragment's id.
	Template string
	Data     any
	// Fragments are the parts of the content that are kept up to date; none for a page that does not change by itself.
	Fragments []fragment
	// Dialog asks before something is done; nil for none.
	Dialog *dialog
}

// fragment is an element with an id that a template draws from data.
type fragment struct {
	ID, Template string
	Data         any
	// Parts are the elements that the element with the id List is made of, for one that is large.
	List  string
	Parts []fragment
}

func (f *fragment) live() live.Fragment {
	l := live.Fragment{ID: f.ID, List: f.List, Render: func(w io.Writer) error { return view.Write(w, f.Template, f.Data) }}
	for i := range f.Parts {
		l.Parts = append(l.Parts, f.Parts[i].live())
	}
	return l
}

// dialog asks whether something shall be done.
type dialog struct {
	Title, Text string
	// Action is the path that does it, Fields what is sent along, and Verb what its button says.
	Action, Verb string
	Fields       map[string]string
	// Inputs are what is asked for.
	Inputs []messages.Input
	Danger bool
	// Command does the same.
	Command string
	// Back is the address without the dialog, and Next where the action leads.
	Back, Next string
}

// look is how a page finds out what it shows. It is called for each view, and about every second for one that is open.
type look func(ctx context.Context, v *visit) (*page, error)

// livePrefix is where the stream of a page is, in front of the page's own path.
const livePrefix = "/live"

// page adds a page: its path, and its stream.
func (d *Dashboard) page(path string, see look) {
	d.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		v, err := d.visit(r)
		if err != nil {
			d.failed(w, r, v, err)
			return
		}
		p, err := see(r.Context(), v)
		if err != nil {
			d.failed(w, r, v, err)
			return
		}
		d.show(w, r, v, p, http.StatusOK)
	})
	d.mux.HandleFunc("GET "+livePrefix+path, func(w http.ResponseWriter, r *http.Request) {
		d.hub.Serve(w, r, func(ctx context.Context) ([]live.Fragment, error) {
			v, err := d.visit(r)
			if err != nil {
				return nil, ended(err)
			}
			p, err := see(ctx, v)
			if err != nil {
				return nil, ended(err)
			}
			list := make([]live.Fragment, len(p.Fragments))
			for i := range p.Fragments {
				list[i] = p.Fragments[i].live()
			}
			return list, nil
		})
	})
}

// ended says that a view ends with an error that loading the page again shows.
func ended(err error) error {
	switch status(err) {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return &live.EndedError{Reason: err.Error()}
	}
	return err
}

// action adds something that is done by a form. Do returns what was done, in words. The form leads back to the field next.
func (d *Dashboard) action(path string, do func(ctx context.Context, v *visit) (done string, err error)) {
	d.mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := r.ParseForm(); err != nil {
			http.Error(w, "the form cannot be read", http.StatusBadRequest)
			return
		}
		v, err := d.visit(r)
		if err != nil {
			d.failed(w, r, v, err)
			return
		}
		done, err := do(r.Context(), v)
		switch status(err) {
		case 0:
			setNotice(w, r, &notice{Text: done})
		case http.StatusUnauthorized, http.StatusForbidden:
			d.failed(w, r, v, err)
			return
		default:
			setNotice(w, r, &notice{Text: sentence(err), Bad: true})
		}
		http.Redirect(w, r, session.SafeNext(r.PostFormValue("next")), http.StatusSeeOther) //nolint:gosec // G710: it stays on the page
	})
}

// maxForm is the largest form, in bytes.
const maxForm = 1 << 20

// visit finds out who asks.
func (d *Dashboard) visit(r *http.Request) (*visit, error) {
	token := d.sessions.Token(r)
	if token == "" {
		return nil, errSignedOut
	}
	for _, name := range []string{"app", "database", "queue", "id"} {
		// Such a name would be another path of the API.
		if value := r.PathValue(name); strings.ContainsAny(value, "/?#") || value == "." || value == ".." {
			return nil, &client.Error{Status: http.StatusNotFound, Code: "page_unknown", Message: "there is no page " + r.URL.Path}
		}
	}
	api := d.api.With(token)
	who, err := api.Whoami(r.Context())
	if err != nil {
		return nil, err
	}
	return &visit{r: r, api: api, who: who, q: r.URL.Query()}, nil
}

// errSignedOut is a request of nobody.
var errSignedOut = &client.Error{Status: http.StatusUnauthorized, Code: "signed_out", Message: "this needs a sign-in"}

// status is the HTTP status of an error of the API; 0 for none.
func status(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*client.Error](err); ok && e.Status != 0 {
		return e.Status
	}
	return http.StatusInternalServerError
}

// sentence is an error in words.
func sentence(err error) string {
	if e, ok := errors.AsType[*client.Error](err); ok {
		return e.Error()
	}
	return "something went wrong here; the log says what"
}

// failed shows why there is no page. V is nil for nobody.
func (d *Dashboard) failed(w http.ResponseWriter, r *http.Request, v *visit, err error) {
	code := status(err)
	if code == http.StatusUnauthorized {
		d.sessions.End(w, r)
		next := pagePath(r)
		if r.URL.RawQuery != "" {
			next += "?" + r.URL.RawQuery
		}
		to := "/login"
		if r.Method == http.MethodGet && next != "/" {
			to += "?next=" + url.QueryEscape(next)
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	}
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		if r.Context().Err() == nil {
			d.o.Log.Error("a page failed", "path", r.URL.Path, "error", fault.Detail(err))
		}
		e = &client.Error{Code: "internal", Message: sentence(err)}
	}
	title := cmp.Or(map[int]string{http.StatusNotFound: "Not here", http.StatusForbidden: "Not allowed"}[code], "This did not work")
	d.show(w, r, v, &page{Title: title, Template: "failure", Data: map[string]any{"Title": title, "Error": e}}, code)
}

// frame is what the layout is drawn from.
type frame struct {
	*page

	Who     *client.Whoami
	Notice  *notice
	Theme   string
	Live    string
	Icon    string
	Style   string
	Script  string
	Missing bool
	Content any
}

func (d *Dashboard) show(w http.ResponseWriter, r *http.Request, v *visit, p *page, code int) {
	f := &frame{page: p, Icon: d.files.Path("icon.svg"), Style: d.files.Path("page.css"), Script: d.files.Path("page.js"), Missing: d.files.Missing(), Notice: takeNotice(w, r), Theme: theme(r)}
	if v != nil {
		f.Who = v.who
		if len(p.Fragments) > 0 {
			f.Live = livePrefix + v.here()
		}
	}
	var body bytes.Buffer
	if err := view.Write(&body, p.Template, p.Data); err != nil {
		d.broken(w, r, err)
		return
	}
	f.Content = view.HTML(body.String())
	var b bytes.Buffer
	if err := view.Write(&b, "layout", f); err != nil {
		d.broken(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = b.WriteTo(w)
}

func (d *Dashboard) broken(w http.ResponseWriter, r *http.Request, err error) {
	d.o.Log.Error("a page cannot be drawn", "path", r.URL.Path, "error", err)
	http.Error(w, "the page cannot be drawn; the log says why", http.StatusInternalServerError)
}

// theme is what somebody chose: "light", "dark" or "" for what their system says.
func theme(r *http.Request) string {
	c, err := r.Cookie("runlot_theme")
	if err != nil || c.Value != "light" && c.Value != "dark" {
		return ""
	}
	return c.Value
}
