package celld_test

import (
	"bufio"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestThePageIsServed signs in with the token of the first start. A view that is open does not hold the stop up.
func TestThePageIsServed(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	i := start(t, data, 0)
	token, err := os.ReadFile(filepath.Join(data, "admin-token"))
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Transport: &http.Transport{}, Jar: jar}
	defer c.CloseIdleConnections()
	response, err := c.PostForm(i.ready.Operator+"/login", url.Values{"token": {strings.TrimSpace(string(token))}, "next": {"/queues"}})
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK || response.Request.URL.Path != "/queues" {
		t.Errorf("the sign-in leads to %s: %s", response.Request.URL, response.Status)
	}
	stream, err := c.Get(i.ready.Operator + "/live/queues")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	lines := bufio.NewScanner(stream.Body)
	if !lines.Scan() || lines.Text() != "event: update" {
		t.Errorf("the stream begins with %q, %v", lines.Text(), lines.Err())
	}
	i.stop()
	for lines.Scan() {
		_ = lines.Text()
	}
}
