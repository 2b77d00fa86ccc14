package session

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runlot/runlot/internal/adapter/sealer"
	"github.com/runlot/runlot/internal/core/queue"
)

func keeper(t *testing.T) *Keeper {
	t.Helper()
	s, err := sealer.Open(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	return &Keeper{s}
}

func cookie(t *testing.T, w *httptest.ResponseRecorder) *http.Cookie {
	t.Helper()
	c := w.Result().Cookies()
	if len(c) != 1 {
		t.Fatalf("%d cookies", len(c))
	}
	return c[0]
}

func with(c *http.Cookie) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.AddCookie(c)
	return r
}

func TestASessionHoldsItsTokenForItsTime(t *testing.T) {
	k, other := keeper(t), keeper(t)
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		if err := k.Start(w, httptest.NewRequest(http.MethodPost, "/login", http.NoBody), "runlot_secret"); err != nil {
			t.Fatal(err)
		}
		c := cookie(t, w)
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Secure || strings.Contains(c.Value, "secret") {
			t.Errorf("cookie %v", c)
		}
		if got := k.Token(with(c)); got != "runlot_secret" {
			t.Errorf("token %q", got)
		}
		if got := other.Token(with(c)); got != "" {
			t.Errorf("another instance reads %q", got)
		}
		for _, value := range []string{"", "!", c.Value[1:], c.Value + "AAAA"} {
			if got := k.Token(with(&http.Cookie{Name: Cookie, Value: value})); got != "" {
				t.Errorf("%q holds %q", value, got)
			}
		}
		time.Sleep(queue.SessionTime - time.Second)
		if k.Token(with(c)) == "" {
			t.Error("it ends too early")
		}
		time.Sleep(time.Second)
		if got := k.Token(with(c)); got != "" {
			t.Errorf("after its time it holds %q", got)
		}
	})
}

func TestTheCookieIsSecureBehindTLS(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/login", http.NoBody)
	r.Header.Set("X-Forwarded-Proto", "https")
	w := httptest.NewRecorder()
	keeper(t).End(w, r)
	if c := cookie(t, w); !c.Secure || c.MaxAge >= 0 || c.Value != "" {
		t.Errorf("cookie %v", c)
	}
}

func TestNextStaysOnThePage(t *testing.T) {
	for next, want := range map[string]string{
		"/apps/shop/queues?queue=jobs": "/apps/shop/queues?queue=jobs", "": "/", "//evil.example": "/", "https://evil.example": "/", `/\evil.example`: "/",
		"/\t/evil.example": "/", "javascript:alert(1)": "/", "apps": "/",
	} {
		if got := SafeNext(next); got != want {
			t.Errorf("SafeNext(%q) = %q, want %q", next, got, want)
		}
	}
}

func TestRefusedSignInsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries Tries
		from := func(n int) *http.Request {
			r := httptest.NewRequest(http.MethodPost, "/login", http.NoBody)
			r.RemoteAddr = fmt.Sprintf("10.0.%d.%d:%d", n/256, n%256, 1024+n)
			return r
		}
		for range queue.SignInTries {
			if wait := tries.Wait(from(0)); wait != 0 {
				t.Fatalf("it waits %s", wait)
			}
			tries.Refused(from(0))
		}
		if tries.Wait(from(0)) != queue.SignInWindow || tries.Wait(from(1)) != 0 {
			t.Errorf("waits %s and %s", tries.Wait(from(0)), tries.Wait(from(1)))
		}
		time.Sleep(queue.SignInWindow)
		if wait := tries.Wait(from(0)); wait != 0 {
			t.Errorf("after its time it waits %s", wait)
		}
		tries.Refused(from(0))
		if wait := tries.Wait(from(0)); wait != 0 {
			t.Errorf("it waits %s after one more try", wait)
		}
		for n := range 2 * queue.SignInClients {
			tries.Refused(from(n + 1))
		}
		if len(tries.since) != queue.SignInClients {
			t.Errorf("%d addresses are remembered", len(tries.since))
		}
	})
}
