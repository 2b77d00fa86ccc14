package kv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/kv"
)

// broken are namespaces that fail, or hold one value.
type broken struct {
	Namespaces
	err   error
	entry *kv.Entry
}

func (b *broken) Get(_ context.Context, _, _ string, most int) (entry *kv.Entry, size int, err error) {
	if b.err != nil || b.entry == nil {
		return nil, 0, b.err
	}
	e := *b.entry
	if size = len(e.Value); size > most {
		e.Value = nil
	}
	return &e, size, nil
}

func (b *broken) Put(_ context.Context, _ string, e *kv.Entry) error {
	b.entry = e
	return b.err
}

func ask(t *testing.T, namespaces Namespaces, method, path, body string, headers ...string) (int, string) {
	t.Helper()
	door := NewDoor(namespaces, slog.New(slog.DiscardHandler))
	door.now = func() time.Time { return time.Unix(1_000_000, 0) }
	server := httptest.NewServer(door.Handler(&app.Manifest{KVNamespaces: []app.KVNamespace{{Binding: "KV", Namespace: "id"}}}))
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(Header, "KV")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		return response.StatusCode, strings.TrimPrefix(response.Status, fmt.Sprint(response.StatusCode, " "))
	}
	return response.StatusCode, string(text)
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		method, path, body string
		headers            []string
		status             int
		text               string
	}{
		{"GET", "/a", "", []string{Header, "OTHER"}, 404, "the app has no such KV namespace"},
		{"POST", "/a", "", nil, 404, "there is no such call"},
		{"POST", "/bulk/get", "{", nil, 400, "The request cannot be read."},
		{"POST", "/bulk/get", strings.Repeat(" ", 1<<20), nil, 413, "Value length of 1048576 exceeds limit of 311596."},
		{"POST", "/bulk/get", `{"keys":["."]}`, nil, 400, `"." is not allowed as a key name.`},
		{"GET", "/?prefix=" + strings.Repeat("x", 513), "", nil, 414, "UTF-8 encoded length of 513 exceeds key length limit of 512."},
		{"PUT", "/a?expiration=1000059", "x", nil, 400, "Invalid expiration of 1000059. Expiration times must be at least 60 seconds in the future."},
		{"PUT", "/a", "x", []string{metadataHeader, "{"}, 400, "Metadata must be valid JSON."},
		{"DELETE", "/" + strings.Repeat("x", 513), "", nil, 414, "UTF-8 encoded length of 513 exceeds key length limit of 512."},
	} {
		b := &broken{}
		if status, text := ask(t, b, c.method, c.path, c.body, c.headers...); status != c.status || text != c.text || b.entry != nil {
			t.Errorf("%s %.20s: %d %s", c.method, c.path, status, text)
		}
	}
}

func TestFailures(t *testing.T) {
	for err, want := range map[error]string{
		errors.New("/secret/path: broken"):                       "500 internal error; the log of the server has the details",
		fmt.Errorf("%w: /secret", kv.ErrFull):                    "507 the disk of the server is full",
		&kv.Error{Status: 400, Text: "é\r\nInjected: header"}:    "400 ???Injected: header",
		fmt.Errorf("x: %w", &kv.Error{Status: 418, Text: "tea"}): "418 tea",
	} {
		for _, method := range []string{"GET", "PUT"} {
			if status, text := ask(t, &broken{err: err}, method, "/a", "x"); fmt.Sprint(status, " ", text) != want {
				t.Errorf("%s with %v: %d %s", method, err, status, text)
			}
		}
	}
}

// TestRoom: a value that is larger than was looked for at first comes whole.
func TestRoom(t *testing.T) {
	b := &broken{}
	large := strings.Repeat("x", 1<<20)
	if status, _ := ask(t, b, "PUT", "/a?expiration_ttl=60", large, metadataHeader, "1"); status != http.StatusOK {
		t.Fatal(status)
	}
	if b.entry.Expiration != 1_000_060 || string(b.entry.Metadata) != "1" {
		t.Errorf("%+v", b.entry.Key)
	}
	if status, text := ask(t, b, "GET", "/a", ""); status != http.StatusOK || text != large {
		t.Errorf("%d, %d bytes", status, len(text))
	}
}
