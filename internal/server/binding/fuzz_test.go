package binding

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/runlot/runlot/internal/core/queue"
)

var printable = regexp.MustCompile(`^[ -~]+$`)

// FuzzRequest sends any request to the handler: it is accepted with messages that keep every limit, or refused with a code
// and a cause that fit a header, and then nothing is sent.
func FuzzRequest(f *testing.F) {
	f.Add(true, "/message", "json", "", "3", "", []byte(`{"a":1}`))
	f.Add(false, "/message", "", "x", "1", "1", []byte("\xff\x0f0"))
	f.Add(true, "/message", "text", "86401", "", "", []byte("ü\xff"))
	f.Add(false, "/batch", "", "-1", "101", "999999", []byte(frame([3]string{"json", "1", ""}, [3]string{"bytes", "abc", "0"})))
	f.Add(true, "/batch", "", "60", "", "", []byte(`{"messages":[{"body":"MQ==","contentType":"json","delaySecs":1e99}]}`))
	f.Add(true, "/batch", "", "", "", "", []byte(`{"messages":[]}`))
	f.Add(true, "/metrics", "", "", "", "", []byte(nil))
	f.Fuzz(func(t *testing.T, runlot bool, path, format, delay, count, largest string, body []byte) {
		if !strings.HasPrefix(path, "/") {
			return
		}
		dialect := queue.Wrangler
		if runlot {
			dialect = queue.Runlot
		}
		q := &fakeQueues{}
		h := New(Options{Manifest: manifest(dialect), Queues: q, Gate: NewGate(), Log: slog.New(slog.DiscardHandler)})
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(string(body)))
		r.URL.Path = path
		if path == "/metrics" {
			r.Method = http.MethodGet
		}
		for name, value := range map[string]string{
			Header: "JOBS", "X-Msg-Fmt": format, "X-Msg-Delay-Secs": delay, "CF-Queue-Batch-Count": count, "CF-Queue-Largest-Msg": largest,
		} {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			code, cause := w.Header().Get("Cf-Queues-Error-Code"), w.Header().Get("Cf-Queues-Error-Cause")
			if !printable.MatchString(code) || !printable.MatchString(cause) || len(cause) > 2*maxCause || w.Code < 400 {
				t.Errorf("refused with status %d, code %q and cause %q", w.Code, code, cause)
			}
			if q.drafts != nil {
				t.Errorf("refused, and %d messages are sent", len(q.drafts))
			}
			return
		}
		if !json.Valid(w.Body.Bytes()) {
			t.Errorf("the answer is no JSON: %q", w.Body)
		}
		checkDrafts(t, queue.LimitsOf(dialect), path, q.drafts)
	})
}

// checkDrafts wants accepted messages to be what a queue may hold.
func checkDrafts(t *testing.T, limits queue.Limits, path string, drafts []queue.Draft) {
	t.Helper()
	if path == "/metrics" {
		return
	}
	if f := queue.CheckBatch(limits, drafts); f != nil {
		t.Errorf("accepted what breaks a limit: %v", f)
	}
	for i := range drafts {
		d := &drafts[i]
		switch {
		case d.Format == queue.JSON && !json.Valid(d.Body), (d.Format == queue.JSON || d.Format == queue.Text) && !utf8.Valid(d.Body):
			t.Errorf("accepted %q as %s", d.Body, d.Format)
		case d.Delay != nil && (*d.Delay < 0 || *d.Delay > queue.MaxDelay):
			t.Errorf("accepted a delay of %s", *d.Delay)
		}
	}
}
