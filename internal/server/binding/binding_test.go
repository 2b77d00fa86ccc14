package binding

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeQueues keeps the drafts of the last send.
type fakeQueues struct {
	metrics queue.Metrics
	err     error
	drafts  []queue.Draft
	name    string
}

func (f *fakeQueues) Send(_ context.Context, name string, drafts []queue.Draft) (queue.Metrics, error) {
	if f.err != nil {
		return queue.Metrics{}, f.err
	}
	f.name, f.drafts = name, drafts
	return f.metrics, nil
}

func (f *fakeQueues) Metrics(context.Context, string) (queue.Metrics, error) { return f.metrics, f.err }

func manifest(d queue.Dialect) *app.Manifest {
	return &app.Manifest{
		Name: "app", Dialect: d, Database: "db",
		Producers: []app.Producer{{Binding: "JOBS", Queue: "jobs"}, {Binding: "LATE", Queue: "late", DeliveryDelay: after(60)}},
	}
}

func newHandler(q Queues) http.Handler {
	return New(Options{Manifest: manifest(queue.Runlot), Queues: q, Gate: NewGate(), Log: slog.New(slog.DiscardHandler)})
}

func after(seconds int) *time.Duration {
	d := time.Duration(seconds) * time.Second
	return &d
}

func at(ms int64) time.Time { return time.UnixMilli(ms) }

// mustScan checks that a frame is one for the fast path and hands it on.
func mustScan(t *testing.T, body io.Reader) io.ReadCloser {
	t.Helper()
	frame, err := io.ReadAll(body)
	if err != nil {
		t.Error(err)
	}
	if _, ok := scanBatch(frame); !ok {
		t.Errorf("not scanned: %.200s", frame)
	}
	return io.NopCloser(bytes.NewReader(frame))
}

// call is one request and what the caller sees of the answer.
func call(h http.Handler, method, path, body string, headers ...string) string {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set(Header, "JOBS")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code == http.StatusOK {
		return w.Body.String()
	}
	return fmt.Sprintf("%d %s (%s)%s", w.Code, w.Header().Get("Cf-Queues-Error-Cause"), w.Header().Get("Cf-Queues-Error-Code"), w.Body.String())
}

// frame writes a batch as workerd does. Each message is content type, body and delay; an empty delay is none.
func frame(messages ...[3]string) string {
	var b strings.Builder
	b.WriteString(`{"messages":[`)
	for i, m := range messages {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"body":"` + base64.StdEncoding.EncodeToString([]byte(m[1])) + `"`)
		if m[0] != "" {
			b.WriteString(`,"contentType":"` + m[0] + `"`)
		}
		if m[2] != "" {
			b.WriteString(`,"delaySecs": ` + m[2])
		}
		b.WriteByte('}')
	}
	b.WriteString(`]}`)
	return b.String()
}

func repeat(n int, m [3]string) [][3]string {
	messages := make([][3]string, n)
	for i := range messages {
		messages[i] = m
	}
	return messages
}

func TestLimitsAtBothSides(t *testing.T) {
	const ok = `{"metadata":{"metrics":{"backlogCount":0,"backlogBytes":0,"oldestMessageTimestamp":0}}}`
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		dialect queue.Dialect
		name    string
		path    string
		body    string
		header  [2]string
		want    string
	}{
		{queue.Runlot, "message size", "/message", x(131072), [2]string{"X-Msg-Fmt", "text"}, ok},
		{queue.Runlot, "message size +1", "/message", x(131073), [2]string{"X-Msg-Fmt", "text"}, "429 message length of 131073 bytes exceeds limit of 131072 (10204)"},
		{queue.Wrangler, "message size", "/message", x(128000), [2]string{"X-Msg-Fmt", "text"}, ok},
		{queue.Wrangler, "message size +1", "/message", x(128001), [2]string{"X-Msg-Fmt", "text"}, "429 message length of 128001 bytes exceeds limit of 128000 (10204)"},
		{queue.Runlot, "empty", "/message", "", [2]string{"X-Msg-Fmt", "bytes"}, ok},
		{queue.Runlot, "no format is v8", "/message", "anything", [2]string{}, ok},
		{queue.Runlot, "unknown format", "/message", "1", [2]string{"X-Msg-Fmt", "xml"}, `400 unknown content type "xml"; known are json, text, bytes and v8 (10203)`},
		{queue.Runlot, "delay 0", "/message", "1", [2]string{"X-Msg-Delay-Secs", "0"}, ok},
		{queue.Runlot, "delay -1", "/message", "1", [2]string{"X-Msg-Delay-Secs", "-1"}, "400 delay of -1 seconds is outside 0 to 86400 (10203)"},
		{queue.Runlot, "delay 24 h", "/message", "1", [2]string{"X-Msg-Delay-Secs", "86400"}, ok},
		{queue.Runlot, "delay 24 h +1", "/message", "1", [2]string{"X-Msg-Delay-Secs", "86401"}, "400 delay of 86401 seconds is outside 0 to 86400 (10203)"},
		{queue.Runlot, "delay 1e9", "/message", "1", [2]string{"X-Msg-Delay-Secs", "1000000000"}, "400 delay of 1000000000 seconds is outside 0 to 86400 (10203)"},
		{queue.Runlot, "delay no number", "/message", "1", [2]string{"X-Msg-Delay-Secs", "1.5"}, `400 delay of "1.5" seconds is not a whole number (10203)`},
		{queue.Runlot, "JSON", "/message", ` {"a":[null,1e5,"\u0000"]} `, [2]string{"X-Msg-Fmt", "json"}, ok},
		{queue.Runlot, "JSON undefined", "/message", "undefined", [2]string{"X-Msg-Fmt", "json"}, `400 the body is undefined: content type "json" cannot carry a function, a symbol or undefined (10207)`},
		{queue.Runlot, "JSON broken", "/message", `{"a":`, [2]string{"X-Msg-Fmt", "json"}, `400 the body is not JSON, which content type "json" wants (10207)`},
		{queue.Runlot, "JSON empty", "/message", ``, [2]string{"X-Msg-Fmt", "json"}, `400 the body is not JSON, which content type "json" wants (10207)`},
		{queue.Runlot, "JSON not UTF-8", "/message", "\"\xff\"", [2]string{"X-Msg-Fmt", "json"}, `400 the body is not JSON, which content type "json" wants (10207)`},
		{queue.Runlot, "text not UTF-8", "/message", "\xff", [2]string{"X-Msg-Fmt", "text"}, `400 the body is not UTF-8, which content type "text" wants (10207)`},
		{queue.Runlot, "text undefined", "/message", "undefined", [2]string{"X-Msg-Fmt", "text"}, ok},
		{queue.Runlot, "count 0", "/batch", frame(), [2]string{}, "429 batch message count of 0 is below the minimum of 1 (10206)"},
		{queue.Runlot, "count 1", "/batch", frame([3]string{"json", "1", ""}), [2]string{}, ok},
		{queue.Runlot, "count 100", "/batch", frame(repeat(100, [3]string{"json", "1", ""})...), [2]string{}, ok},
		{queue.Runlot, "count 101", "/batch", frame(repeat(101, [3]string{"json", "1", ""})...), [2]string{}, "429 batch message count of 101 exceeds limit of 100 (10206)"},
		{queue.Runlot, "batch size", "/batch", frame(repeat(2, [3]string{"bytes", x(131072), ""})...), [2]string{}, ok},
		{queue.Runlot, "batch size +1", "/batch", frame([3]string{"", x(131072), ""}, [3]string{"", x(131072), ""}, [3]string{"", "x", ""}), [2]string{}, "429 batch size of 262145 bytes exceeds limit of 262144 bytes (10205)"},
		{queue.Wrangler, "batch size", "/batch", frame(repeat(2, [3]string{"bytes", x(128000), ""})...), [2]string{}, ok},
		{queue.Wrangler, "batch size +1", "/batch", frame([3]string{"", x(128000), ""}, [3]string{"", x(128000), ""}, [3]string{"", "x", ""}), [2]string{}, "429 batch size of 256001 bytes exceeds limit of 256000 bytes (10205)"},
		{queue.Runlot, "message of a batch +1", "/batch", frame([3]string{"", "x", ""}, [3]string{"", x(131073), ""}), [2]string{}, "429 message 1: message length of 131073 bytes exceeds limit of 131072 (10204)"},
		{queue.Runlot, "call's delay 24 h", "/batch", frame([3]string{"json", "1", ""}), [2]string{"X-Msg-Delay-Secs", "86400"}, ok},
		{queue.Runlot, "call's delay 24 h +1", "/batch", frame([3]string{"json", "1", ""}), [2]string{"X-Msg-Delay-Secs", "86401"}, "400 delay of 86401 seconds is outside 0 to 86400 (10202)"},
		{queue.Runlot, "message's delay 24 h", "/batch", frame([3]string{"json", "1", "86400"}), [2]string{}, ok},
		{queue.Runlot, "message's delay 24 h +1", "/batch", frame([3]string{"json", "1", "86401"}), [2]string{}, "400 message 0: delay of 86401 seconds is outside 0 to 86400 (10203)"},
		{queue.Runlot, "message's delay -1", "/batch", frame([3]string{"json", "1", "-1"}), [2]string{}, "400 message 0: delay of -1 seconds is outside 0 to 86400 (10203)"},
		{queue.Runlot, "message's delay 1.5", "/batch", frame([3]string{"json", "1", "1.5"}), [2]string{}, "400 message 0: delay of 1.5 seconds is not a whole number (10203)"},
		{queue.Runlot, "message's delay 1e300", "/batch", frame([3]string{"json", "1", "1e300"}), [2]string{}, "400 message 0: delay of 1e+300 seconds is not a whole number (10203)"},
		{queue.Runlot, "message's format", "/batch", frame([3]string{"json", "1", ""}, [3]string{"XML", "1", ""}), [2]string{}, `400 message 1: unknown content type "XML"; known are json, text, bytes and v8 (10203)`},
		{queue.Runlot, "message's JSON", "/batch", frame([3]string{"json", "1", ""}, [3]string{"json", "undefined", ""}), [2]string{}, `400 message 1: the body is undefined: content type "json" cannot carry a function, a symbol or undefined (10207)`},
		{queue.Runlot, "message without body", "/batch", `{"messages":[{"contentType":"json"}]}`, [2]string{}, "400 message 0 has no body (10207)"},
		{queue.Runlot, "message's base64", "/batch", `{"messages":[{"body":"M?=="}]}`, [2]string{}, "400 message 0: the body is not base64 (10207)"},
		{queue.Runlot, "line end in base64", "/batch", `{"messages":[{"body":"MQ=\n="}]}`, [2]string{}, "400 message 0: the body is not base64 (10207)"},
		{queue.Runlot, "frame no JSON", "/batch", `{"messages":[`, [2]string{}, "400 the batch request is not JSON (10208)"},
		{queue.Runlot, "frame of another shape", "/batch", `{"messages":{"a":1}}`, [2]string{}, `400 the batch request has a object as "messages" (10207)`},
		{queue.Runlot, "frame in another order", "/batch", ` {"messages": [ {"contentType":"text","body":"YQ=="} ]} `, [2]string{}, ok},
		{queue.Runlot, "request size", "/batch", frame([3]string{"json", "1", ""}) + x(queue.MaxBindingBody-len(frame([3]string{"json", "1", ""}))), [2]string{}, "400 the batch request is not JSON (10208)"},
		{queue.Runlot, "request size +1", "/batch", x(queue.MaxBindingBody + 1), [2]string{}, "429 batch request exceeds limit of 524288 bytes (10205)"},
		{queue.Runlot, "request size, by bytes", "/batch", x(queue.MaxBindingBody + 1), [2]string{"Cf-Queue-Batch-Bytes", "300000"}, "429 batch size of 300000 bytes exceeds limit of 262144 bytes (10205)"},
	} {
		t.Run(string(c.dialect)+" "+c.name, func(t *testing.T) {
			h := New(Options{Manifest: manifest(c.dialect), Queues: &fakeQueues{}, Gate: NewGate(), Log: slog.New(slog.DiscardHandler)})
			headers := []string{}
			if c.header[0] != "" {
				headers = append(headers, c.header[:]...)
			}
			if got := call(h, "POST", c.path, c.body, headers...); got != c.want {
				t.Error(cmp.Diff(c.want, got))
			}
		})
	}
}

// TestUnknownLength sends bodies whose size is not announced.
func TestUnknownLength(t *testing.T) {
	for path, sizes := range map[string]map[int]string{
		"/message": {0: "", 1: "", 131072: "", 131073: "10204", 5 << 20: "10204"},
		"/batch":   {queue.MaxBindingBody: "10208", queue.MaxBindingBody + 1: "10205", 5 << 20: "10205"},
	} {
		for size, code := range sizes {
			r := httptest.NewRequest(http.MethodPost, path, io.LimitReader(zeros{}, int64(size)))
			r.Header.Set(Header, "JOBS")
			w := httptest.NewRecorder()
			newHandler(&fakeQueues{}).ServeHTTP(w, r)
			if got := w.Header().Get("Cf-Queues-Error-Code"); got != code {
				t.Errorf("%s %d: code %q, want %q", path, size, got, code)
			}
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestDelayPrecedence(t *testing.T) {
	for _, c := range []struct {
		binding, call, message string
		want                   *time.Duration
	}{
		{"JOBS", "", "", nil},
		{"JOBS", "5", "", after(5)},
		{"JOBS", "5", "3", after(3)},
		{"JOBS", "5", "0", after(0)},
		{"LATE", "", "", after(60)},
		{"LATE", "0", "", after(0)},
		{"LATE", "5", "", after(5)},
		{"LATE", "", "0", after(0)},
		{"LATE", "5", "3", after(3)},
	} {
		q := &fakeQueues{}
		call(newHandler(q), "POST", "/batch", frame([3]string{"json", "1", c.message}), Header, c.binding, "X-Msg-Delay-Secs", c.call)
		if diff := cmp.Diff([]queue.Draft{{Format: queue.JSON, Body: []byte("1"), Delay: c.want}}, q.drafts); diff != "" {
			t.Errorf("%v: %s", c, diff)
		}
		if c.message != "" {
			continue
		}
		call(newHandler(q), "POST", "/message", "1", "X-Msg-Fmt", "json", Header, c.binding, "X-Msg-Delay-Secs", c.call)
		if diff := cmp.Diff([]queue.Draft{{Format: queue.JSON, Body: []byte("1"), Delay: c.want}}, q.drafts); diff != "" {
			t.Errorf("message %v: %s", c, diff)
		}
	}
}

func TestErrors(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		want   string
		logged string
	}{
		"fault":       {fault.New(fault.Limit, queue.CodeOperationsCap, "no more today").WithHint("wait"), "429 no more today - wait (queue_ops_cap)", ""},
		"full":        {fault.New(fault.Limit, queue.CodeStorageFull, "full"), "429 full (database_full)", ""},
		"wrapped":     {fmt.Errorf("send: %w", fault.New(fault.NotFound, queue.CodeQueueNotFound, "no queue")), "404 no queue (10104)", ""},
		"timeout":     {fmt.Errorf("commit: %w", context.DeadlineExceeded), "503 Queue is overloaded. Please back off. (10250)", ""},
		"internal":    {errors.New("secret"), "500 Internal error. The log of the server has the details. (15000)", "secret"},
		"environment": {fault.New(fault.Environment, "x", "secret"), "500 Internal error. The log of the server has the details. (15000)", "secret"},
		"unprintable": {fault.New(fault.Conflict, "a b\r\nX: y", "ä\r\n\tB — “c” 😀\xff\x00"), `409 \u{e4}   B - "c" \u{1f600}? (a b  X: y)`, ""},
		"long":        {fault.New(fault.Conflict, "c", "%s", strings.Repeat("é", 5000)), "409 " + strings.Repeat(`\u{e9}`, 166) + "... (c)", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			h := New(Options{Manifest: manifest(queue.Runlot), Queues: &fakeQueues{err: c.err}, Gate: NewGate(), Log: slog.New(slog.NewTextHandler(&log, nil))})
			for _, call := range []func() string{
				func() string { return call(h, "POST", "/message", "1") },
				func() string { return call(h, "POST", "/batch", frame([3]string{"", "1", ""})) },
				func() string { return call(h, "GET", "/metrics", "") },
			} {
				log.Reset()
				if got := call(); got != c.want {
					t.Error(cmp.Diff(c.want, got))
				}
				if c.logged == "" != (log.Len() == 0) || !strings.Contains(log.String(), c.logged) {
					t.Errorf("logged %q", log.String())
				}
			}
		})
	}
}

func TestCallsThatWorkerdDoesNotMake(t *testing.T) {
	h := newHandler(&fakeQueues{})
	const internal = "500 Internal error. The log of the server has the details. (15000)"
	for _, c := range [][4]string{
		{"GET", "/message", "JOBS", internal},
		{"POST", "/metrics", "JOBS", internal},
		{"POST", "/", "JOBS", internal},
		{"POST", "/message", "", `404 the app has no queue producer "" (10104)`},
		{"POST", "/message", "OTHER", `404 the app has no queue producer "OTHER" (10104)`},
	} {
		if got := call(h, c[0], c[1], "1", Header, c[2]); got != c[3] {
			t.Errorf("%v: %s", c, got)
		}
	}
}

func TestEarlyEnd(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/batch", io.MultiReader(strings.NewReader(`{"mess`), broken{}))
	r.Header.Set(Header, "JOBS")
	w := httptest.NewRecorder()
	newHandler(&fakeQueues{}).ServeHTTP(w, r)
	if w.Header().Get("Cf-Queues-Error-Code") != queue.CodeBodyMalformed {
		t.Errorf("%v", w.Header())
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
