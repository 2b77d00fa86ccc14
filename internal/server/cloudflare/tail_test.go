package cloudflare_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/tail"
)

// client is the other end of a tail.
type client struct {
	t    *testing.T
	conn net.Conn
	*bufio.Reader
}

// patience bounds each wait.
const patience = time.Minute

// dial connects to the address of a tail, and returns the status of the answer.
func dial(t *testing.T, url string) (*client, int) {
	t.Helper()
	host, path, _ := strings.Cut(strings.TrimPrefix(url, "ws://"), "/")
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET /%s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: trace-v1\r\n\r\n", path, host)
	r := bufio.NewReader(conn)
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode == http.StatusSwitchingProtocols &&
		(response.Header.Get("Sec-WebSocket-Protocol") != "trace-v1" || response.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=") {
		t.Errorf("the handshake: %v", response.Header)
	}
	_ = response.Body.Close()
	return &client{t, conn, r}, response.StatusCode
}

// frame reads one of less than 64 KiB; op 8 is the end, whose text begins with two bytes.
func (c *client) frame() (op byte, text string) {
	c.t.Helper()
	read := func(n int) []byte {
		b := make([]byte, n)
		if _, err := io.ReadFull(c.Reader, b); err != nil {
			c.t.Fatal(err)
		}
		return b
	}
	head := read(2)
	n := int(head[1])
	if n == 126 {
		length := read(2)
		n = int(length[0])<<8 + int(length[1])
	}
	return head[0] & 0xf, string(read(n))
}

func (w *world) tail(server *httptest.Server, token, body string) (id, url string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, server.URL+"/client/v4"+scripts+"/shop/tails", strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := server.Client().Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	var e struct {
		Result struct {
			ID, URL string
			Expires time.Time `json:"expires_at"`
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&e); err != nil || response.StatusCode != http.StatusOK || time.Until(e.Result.Expires) < time.Hour {
		w.t.Fatal(response.Status, e, err)
	}
	return e.Result.ID, e.Result.URL
}

func TestTail(t *testing.T) {
	w := newWorld(t)
	w.add("one")
	token := w.token(access.Read, "shop")
	server := httptest.NewServer(w.api)
	t.Cleanup(server.Close)
	t.Cleanup(w.api.Wait)
	id, url := w.tail(server, token, `{"filters":[{"outcome":["ok"]}]}`)
	if !strings.HasPrefix(url, strings.Replace(server.URL, "http", "ws", 1)+"/client/v4/tails/") || strings.Contains(url, id) {
		t.Errorf("address %s of %s", url, id)
	}
	if status, _ := w.call("GET", strings.TrimPrefix(url, strings.Replace(server.URL, "http", "ws", 1)+"/client/v4"), "", ""); status != http.StatusBadRequest {
		t.Errorf("a plain request: %d", status)
	}
	c, _ := dial(t, url)
	if _, status := dial(t, url); status != http.StatusNotFound {
		t.Errorf("a second connection: %d", status)
	}
	// A frame without a mask, as wrangler sends it, and a ping, whose answer shows that the tail is on its way.
	if _, err := io.WriteString(c.conn, "\x81\x0f{\"debug\":false}\x89\x02hi"); err != nil {
		t.Fatal(err)
	}
	if op, text := c.frame(); op != 0xa || text != "hi" {
		t.Errorf("the answer to a ping: %d %q", op, text)
	}
	w.until(func() bool { return w.tails.Followed("shop") })
	w.tails.Publish(&tail.Invocation{App: "shop", Version: "v1", Outcome: "exception"})
	w.tails.Publish(&tail.Invocation{App: "shop", Version: "v1", Outcome: "ok", At: time.UnixMilli(7), Event: json.RawMessage(`{"queue":"jobs","batchSize":2}`), Logs: []tail.Log{{At: time.UnixMilli(8), Level: "log", Text: "a"}}})
	const want = `{"outcome":"ok","scriptName":"shop","entrypoint":null,"scriptVersion":{"id":"v1"},"eventTimestamp":7,"wallTime":0,"cpuTime":0,"truncated":false,` +
		`"exceptions":[],"logs":[{"level":"log","message":["a"],"timestamp":8}],"event":{"queue":"jobs","batchSize":2}}`
	if op, text := c.frame(); op != 1 || text != want {
		t.Errorf("the event: %d %s", op, text)
	}
	if _, e := w.call("GET", scripts+"/shop/tails", token, ""); !strings.Contains(string(e.Result), id) || strings.Contains(string(e.Result), "url") {
		t.Errorf("tails %s", e.Result)
	}
	if status, _ := w.call("DELETE", scripts+"/shop/tails/"+id, token, ""); status != http.StatusOK {
		t.Errorf("delete: %d", status)
	}
	if op, text := c.frame(); op != 8 || text != "\x03\xe8this tail was ended" {
		t.Errorf("the end: %d %q", op, text)
	}
	if status, _ := w.call("DELETE", scripts+"/shop/tails/"+id, token, ""); status != http.StatusNotFound {
		t.Errorf("delete again: %d", status)
	}

	// A client that goes away, one that sends too much, and the stop of the server.
	_, url = w.tail(server, token, `{}`)
	c, _ = dial(t, url)
	_ = c.conn.Close()
	_, url = w.tail(server, token, `{}`)
	c, _ = dial(t, url)
	if _, err := io.WriteString(c.conn, "\x81\x7f\x00\x00\x00\x00\x7f\xff\xff\xff"); err != nil {
		t.Fatal(err)
	}
	if op, text := c.frame(); op != 8 || !strings.Contains(text, "larger than a tail takes") {
		t.Errorf("a large frame: %d %q", op, text)
	}
	_, url = w.tail(server, token, `{}`)
	c, _ = dial(t, url)
	_, late := w.tail(server, token, `{}`)
	w.api.Stop()
	if op, text := c.frame(); op != 8 || text != "\x03\xe9celld stops" {
		t.Errorf("the stop: %d %q", op, text)
	}
	w.api.Wait()
	if _, status := dial(t, late); status != http.StatusNotFound {
		t.Errorf("a connection after the stop: %d", status)
	}
}

func TestTailsAreBounded(t *testing.T) {
	w := newWorld(t)
	w.add("one")
	token := w.token(access.Deploy, "")
	for range 10 {
		if status, e := w.call("POST", scripts+"/shop/tails", token, `{"filters":[]}`); status != http.StatusOK {
			t.Fatalf("%d %+v", status, e.Errors)
		}
	}
	if status, e := w.call("POST", scripts+"/shop/tails", token, ``); status != http.StatusBadRequest || !strings.Contains(e.Errors[0].Message, "10 tails follow shop") {
		t.Errorf("%d %+v", status, e.Errors)
	}
	for _, body := range []string{`{"filters":[{"client_ip":["self"]}]}`, `{"filters":7}`} {
		if status, _ := w.call("POST", scripts+"/shop/tails", token, body); status != http.StatusBadRequest {
			t.Errorf("%s: %d", body, status)
		}
	}
	if status, _ := w.call("POST", scripts+"/none/tails", token, ``); status != http.StatusNotFound {
		t.Errorf("a script that is not there: %d", status)
	}
}
