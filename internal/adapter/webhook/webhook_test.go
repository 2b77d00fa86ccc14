package webhook

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/notify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

var secrets = [][]byte{[]byte("0123456789abcdef01234567"), []byte("another secret that is long enough")}

func hook(t *testing.T, url string) *Hook {
	t.Helper()
	h, err := New(Options{URL: url, Secrets: secrets, Operator: "https://celld.example.com", Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func delivery(attempt int) *notify.Delivery {
	return &notify.Delivery{ID: 7, Attempt: attempt, Notice: &notify.Notice{
		Rule: notify.QueueFailed, At: noon, Database: "shop", Queue: "jobs", App: "shop", Count: 3, Since: noon.Add(-time.Minute), Outcome: queue.Failed,
		Error: &notify.Exception{Name: "TypeError", Message: "x <is> not", Location: "src/a.ts:3:7"},
	}}
}

// TestSignature: the example of the specification, https://www.standardwebhooks.com.
func TestSignature(t *testing.T) {
	secret, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	got := Sign([][]byte{secret}, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("signed %s, not %s", got, want)
	}
}

func TestACall(t *testing.T) {
	var got []*http.Request
	var bodies [][]byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got, bodies = append(got, r), append(bodies, body)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	h := hook(t, server.URL+"/celld?key=secret")
	if way := h.Ways()[0]; strings.Contains(way, "secret") || !strings.HasPrefix(way, "webhook 127.0.0.1:") {
		t.Errorf("way %q", way)
	}
	for attempt := range 2 {
		if err := h.Send(t.Context(), delivery(attempt+1)); err != nil {
			t.Fatal(fault.Detail(err))
		}
	}
	r := got[0]
	if r.Method != http.MethodPost || r.URL.Path != "/celld" || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("User-Agent") != "celld/v1" {
		t.Errorf("request %s %s, header %v", r.Method, r.URL, r.Header)
	}
	id, at := r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp")
	if want := Sign(secrets, id, at, bodies[0]); r.Header.Get("Webhook-Signature") != want || strings.Count(want, "v1,") != 2 {
		t.Errorf("signature %s, not %s", r.Header.Get("Webhook-Signature"), want)
	}
	if again := got[1].Header.Get("Webhook-Id"); again != id || id == "" {
		t.Errorf("the ids of two tries are %q and %q", id, again)
	}
	var p Payload
	if err := json.Unmarshal(bodies[0], &p); err != nil {
		t.Fatal(err)
	}
	if p.Type != notify.QueueFailed || !p.Timestamp.Equal(noon) || p.Data.Title != "jobs: three batches failed in a row" ||
		p.Data.URL != "https://celld.example.com/databases/shop/queues/jobs" || p.Data.Error.Location != "src/a.ts:3:7" || p.Data.Queue != "jobs" {
		t.Errorf("body %s", bodies[0])
	}
}

func TestWhatIsNoSuccess(t *testing.T) {
	status := 0
	followed := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			followed = true
			return
		}
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
	}))
	defer server.Close()
	for _, test := range []struct {
		status  int
		say     string
		refused bool
	}{
		{500, "answers 500", false}, {429, "answers 429", false}, {404, "answers 404", false}, {307, "sends us elsewhere", false}, {410, "is gone", true},
	} {
		status = test.status
		err := hook(t, server.URL+"/secret").Send(t.Context(), delivery(1))
		if err == nil || !strings.Contains(err.Error(), test.say) || errors.Is(err, notify.ErrRefused) != test.refused || strings.Contains(fault.Detail(err), "/secret") {
			t.Errorf("%d: error %v", test.status, err)
		}
	}
	if followed {
		t.Error("a redirect was followed")
	}
	server.Close()
	if err := hook(t, server.URL+"/secret").Send(t.Context(), delivery(1)); err == nil || !strings.Contains(err.Error(), "refuses connections") || strings.Contains(fault.Detail(err), "/secret") {
		t.Errorf("error %v", err)
	}
}

func TestAHangingReceiver(t *testing.T) {
	end := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }))
	defer server.Close()
	defer close(end)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if err := hook(t, server.URL).Send(ctx, delivery(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	h := hook(t, server.URL)
	h.client.Timeout = 50 * time.Millisecond
	if err := h.Send(t.Context(), delivery(1)); err == nil || !strings.Contains(err.Error(), "did not answer within 10 s") {
		t.Errorf("error %v", err)
	}
}

func TestAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"https://hooks.example.com/x": "",
		"http://127.0.0.1:9/x":        "",
		"http://[::1]/x":              "",
		"http://localhost/x":          "",
		"http://hooks.example.com/x":  "is not called over https",
		"ftp://127.0.0.1/":            "is not called over https",
		"hooks.example.com":           "makes no sense",
		"https://":                    "makes no sense",
	} {
		_, err := New(Options{URL: text, Secrets: secrets})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := New(Options{URL: "https://example.com"}); err == nil {
		t.Error("a webhook without a secret")
	}
}

func TestPrivateAddressesAreRefused(t *testing.T) {
	for address, want := range map[string]bool{
		"1.1.1.1:443": true, "[2606:4700::1111]:443": true,
		"127.0.0.1:1": false, "10.1.2.3:1": false, "192.168.0.1:1": false, "172.16.0.1:1": false, "169.254.169.254:80": false, "100.64.0.1:1": false,
		"0.0.0.0:1": false, "[::1]:1": false, "[::ffff:10.0.0.1]:1": false, "[fe80::1%eth0]:1": false, "[fd00::1]:1": false, "224.0.0.1:1": false, "[64:ff9b::a00:1]:1": false,
		"nonsense": false,
	} {
		if got := public(address); got != want {
			t.Errorf("%s is public: %v", address, got)
		}
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	port := server.URL[strings.LastIndex(server.URL, ":"):]
	for _, allow := range []bool{false, true} {
		h, err := New(Options{URL: "https://127.0.0.1" + port, Secrets: secrets, AllowPrivate: allow})
		if err != nil {
			t.Fatal(err)
		}
		// A name that is not the loopback's own, and leads there.
		h.o.URL = "https://0.0.0.0" + port
		err = h.Send(t.Context(), delivery(1))
		if err == nil || strings.Contains(err.Error(), "is at a private address") == allow {
			t.Errorf("allowed %v: error %v", allow, err)
		}
	}
}

func TestReadSecrets(t *testing.T) {
	write := func(text string) string {
		file := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	one, two := "whsec_"+base64.StdEncoding.EncodeToString(secrets[0]), "whsec_"+base64.StdEncoding.EncodeToString(secrets[1])
	got, err := ReadSecrets(write(one + "\n\n " + two + "\n"))
	if err != nil || len(got) != 2 || string(got[0]) != string(secrets[0]) || string(got[1]) != string(secrets[1]) {
		t.Errorf("%q, error %v", got, err)
	}
	for _, text := range []string{"", "\n", "secret", "whsec_AAAA", "whsec_!", one + "\nx"} {
		if _, err := ReadSecrets(write(text)); err == nil || fault.KindOf(err) != fault.Invalid || strings.Contains(err.Error(), "MDEy") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := ReadSecrets(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that does not exist")
	}
}
