package binding

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzDecodeBatch holds the fast path to what encoding/json reads.
func FuzzDecodeBatch(f *testing.F) {
	f.Add([]byte(frame([3]string{"json", "1", ""}, [3]string{"text", "abc", "0"}, [3]string{"", "\xff\x0f", "86400"})))
	f.Add([]byte(frame()))
	f.Add([]byte(`{"messages":[{"body":"","contentType":"bytes","delaySecs":-01}]}`))
	f.Add([]byte(`{"messages":[{"body":"\u004dQ==","contentType":"v8"},{"body":"MQ="}]}`))
	f.Fuzz(func(t *testing.T, frame []byte) {
		fast, ok := scanBatch(frame)
		if !ok {
			return
		}
		slow, err := parseBatch(frame)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(slow, fast); diff != "" {
			t.Error(diff)
		}
		if !json.Valid(frame) {
			t.Error("scanned what is not JSON")
		}
	})
}

// BenchmarkBatch measures a sendBatch of 100 messages of 200 bytes without a socket.
func BenchmarkBatch(b *testing.B) {
	body := []byte(frame(repeat(100, [3]string{"json", benchmarkBody, ""})...))
	h := newHandler(&fakeQueues{})
	benchmark(b, h, "/batch", body)
}

// BenchmarkMessage measures a send of one message of 200 bytes without a socket.
func BenchmarkMessage(b *testing.B) {
	benchmark(b, newHandler(&fakeQueues{}), "/message", []byte(benchmarkBody))
}

var benchmarkBody = `{"url":"https://example.com/` + strings.Repeat("path/", 25) + `","id":123456,"tags":["a","b"],"nested":{"x":1.5}}`

func benchmark(b *testing.B, h http.Handler, path string, body []byte) {
	b.Helper()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	reader := bytes.NewReader(body)
	r := httptest.NewRequest(http.MethodPost, path, reader)
	r.Header.Set(Header, "JOBS")
	r.Header.Set("X-Msg-Fmt", "json")
	for b.Loop() {
		reader.Reset(body)
		r.Body, r.ContentLength = io.NopCloser(reader), int64(len(body))
		w := silent{header: http.Header{}}
		h.ServeHTTP(&w, r)
		if w.status != 0 {
			b.Fatal(strconv.Itoa(w.status))
		}
	}
}

type silent struct {
	header http.Header
	status int
}

func (s *silent) Header() http.Header         { return s.header }
func (s *silent) Write(b []byte) (int, error) { return len(b), nil }
func (s *silent) WriteHeader(status int)      { s.status = status }
