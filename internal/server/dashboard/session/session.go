// Package session keeps people signed in to the page: in a cookie that only this program can read, which holds the token
// that they signed in with and until when that counts.
package session

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// Sealer encrypts text with a key that stays on this instance, bound to a name.
type Sealer interface {
	Seal(app, name, value string) ([]byte, error)
	Open(app, name string, sealed []byte) (string, error)
}

// Cookie is the name of the cookie.
const Cookie = "runlot_session"

// No secret of an app has this name, or no app.
const sealedAs = "session of the page"

// Keeper makes and reads sessions.
type Keeper struct{ Sealer Sealer }

type content struct {
	Token   string    `json:"token"`
	Expires time.Time `json:"expires"`
}

// Start signs somebody in.
func (k *Keeper) Start(w http.ResponseWriter, r *http.Request, token string) error {
	text, err := json.Marshal(&content{token, time.Now().Add(queue.SessionTime)})
	if err != nil {
		return err
	}
	sealed, err := k.Sealer.Seal("", sealedAs, string(text))
	if err != nil {
		return err
	}
	set(w, r, base64.RawURLEncoding.EncodeToString(sealed), int(queue.SessionTime/time.Second))
	return nil
}

// End signs out.
func (*Keeper) End(w http.ResponseWriter, r *http.Request) { set(w, r, "", -1) }

func set(w http.ResponseWriter, r *http.Request, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // G124: without TLS, as on the loopback, it cannot be Secure
		Name: Cookie, Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true, Secure: Secure(r), SameSite: http.SameSiteStrictMode,
	})
}

// Secure reports whether a request came by TLS, to this program or to a proxy before it.
func Secure(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// Token is the token that somebody signed in with; "" for nobody.
func (k *Keeper) Token(r *http.Request) string {
	cookie, err := r.Cookie(Cookie)
	if err != nil {
		return ""
	}
	sealed, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil {
		return ""
	}
	text, err := k.Sealer.Open("", sealedAs, sealed)
	if err != nil {
		return ""
	}
	var c content
	if json.Unmarshal([]byte(text), &c) != nil || !time.Now().Before(c.Expires) {
		return ""
	}
	return c.Token
}

// SafeNext is the path that a sign-in returns to: next when it is one of this page, or else "/".
func SafeNext(next string) string {
	// What browsers take for the beginning of another host, they take with a backslash too; control characters they drop.
	if !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsFunc(next, func(c rune) bool { return c == '\\' || c < ' ' }) {
		return "/"
	}
	return next
}
