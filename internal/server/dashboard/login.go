package dashboard

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/server/dashboard/session"
)

func (d *Dashboard) loginForm(w http.ResponseWriter, r *http.Request) {
	next := session.SafeNext(r.URL.Query().Get("next"))
	if v, err := d.visit(r); err == nil && v != nil {
		http.Redirect(w, r, next, http.StatusSeeOther) //nolint:gosec // G710: SafeNext made it one of the page
		return
	}
	d.showLogin(w, r, next, "", http.StatusOK)
}

func (d *Dashboard) showLogin(w http.ResponseWriter, r *http.Request, next, problem string, code int) {
	d.show(w, r, nil, &page{Title: "Sign in", Template: "login", Data: map[string]any{"Next": next, "Problem": problem}}, code)
}

func (d *Dashboard) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	token, next := strings.TrimSpace(r.PostFormValue("token")), session.SafeNext(r.PostFormValue("next"))
	if wait := d.tries.Wait(r); wait > 0 {
		seconds := int(wait/time.Second) + 1
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
		d.showLogin(w, r, next, "That was refused too often. Try again in "+strconv.Itoa(seconds)+" seconds.", http.StatusTooManyRequests)
		return
	}
	if token == "" {
		d.showLogin(w, r, next, "Enter a token.", http.StatusUnprocessableEntity)
		return
	}
	if _, err := d.api.With(token).Whoami(r.Context()); err != nil {
		if status(err) != http.StatusUnauthorized {
			d.showLogin(w, r, next, "This did not work: "+sentence(err), http.StatusBadGateway)
			return
		}
		d.tries.Refused(r)
		d.o.Log.Warn("a sign-in to the page was refused", "from", r.RemoteAddr)
		d.showLogin(w, r, next, "This token opens nothing. It may have been revoked, or have expired.", http.StatusUnauthorized)
		return
	}
	if err := d.sessions.Start(w, r, token); err != nil {
		d.broken(w, r, err)
		return
	}
	http.Redirect(w, r, next, http.StatusSeeOther) //nolint:gosec // G710: SafeNext made it one of the page
}

func (d *Dashboard) logout(w http.ResponseWriter, r *http.Request) {
	d.sessions.End(w, r)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// notice is what an action says on the page that it leads to.
type notice struct {
	Text string `json:"text"`
	Bad  bool   `json:"bad,omitempty"`
}

const noticeCookie = "runlot_notice"

// maxNotice bounds the text of a notice, which travels in a cookie.
const maxNotice = 1_000

func setNotice(w http.ResponseWriter, r *http.Request, n *notice) {
	if len(n.Text) > maxNotice {
		n.Text = strings.ToValidUTF8(n.Text[:maxNotice], "") + " …"
	}
	text, err := json.Marshal(n)
	if err != nil {
		return
	}
	writeNotice(w, r, base64.RawURLEncoding.EncodeToString(text), 60)
}

func writeNotice(w http.ResponseWriter, r *http.Request, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // G124: without TLS, as on the loopback, it cannot be Secure
		Name: noticeCookie, Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true, Secure: session.Secure(r), SameSite: http.SameSiteStrictMode,
	})
}

// takeNotice is the notice for this view, which is shown once; nil for none.
func takeNotice(w http.ResponseWriter, r *http.Request) *notice {
	c, err := r.Cookie(noticeCookie)
	if err != nil {
		return nil
	}
	writeNotice(w, r, "", -1)
	text, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil {
		return nil
	}
	var n notice
	if json.Unmarshal(text, &n) != nil || n.Text == "" {
		return nil
	}
	return &n
}
