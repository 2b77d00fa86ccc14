package complete_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/internal/cli/complete"
)

// program is a program whose commands say whatever the test needs.
func program(commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{Use: "runlot"}
	for _, c := range commands {
		c.Run = func(*cobra.Command, []string) {}
		root.AddCommand(c)
	}
	complete.Install(root)
	return root
}

func completions(t *testing.T, root *cobra.Command, line ...string) []string {
	t.Helper()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&bytes.Buffer{})
	root.SetArgs(append([]string{"__complete"}, line...))
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if last := lines[len(lines)-1]; last != ":4" { // no files
		t.Errorf("the shell is told %s", last)
	}
	return lines[:len(lines)-1]
}

func withServer(name string) *cobra.Command {
	c := &cobra.Command{Use: name}
	c.Flags().String("server", "", "")
	return c
}

func TestNamesOfTheServer(t *testing.T) {
	t.Setenv("RUNLOT_TOKEN", "runlot_a_b")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/apps":
			_, _ = w.Write([]byte(`{"items":[{"name":"shop","state":"live"},{"name":"blog","state":"parked"}]}`))
		case "/v1/tokens":
			_, _ = w.Write([]byte(`{"items":[{"id":"r4n2kn9a","name":"ann\u001b"}]}`))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	token := &cobra.Command{Use: "token"}
	revoke := withServer("revoke ID")
	revoke.Run = func(*cobra.Command, []string) {}
	token.AddCommand(revoke)
	root := program(withServer("delete APP"), token)
	for _, c := range []struct {
		line []string
		want string
	}{
		{[]string{"delete", "--server", server.URL, ""}, "shop\tlive blog\tparked"},
		{[]string{"delete", "--server", server.URL, "shop", ""}, ""},
		{[]string{"token", "revoke", "--server", server.URL, ""}, "r4n2kn9a\tann�"},
	} {
		if got := strings.Join(completions(t, root, c.line...), " "); got != c.want {
			t.Errorf("%v: %q, want %q", c.line, got, c.want)
		}
	}
}

// A server that does not answer, refuses or is not there has no names to offer, and keeps nobody waiting for long.
func TestSilenceWithoutAServer(t *testing.T) {
	ended := make(chan struct{})
	stuck := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-ended:
		}
	}))
	defer stuck.Close()
	defer close(ended)
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer refusing.Close()
	t.Setenv("RUNLOT_TOKEN", "runlot_a_b")
	for _, url := range []string{stuck.URL, refusing.URL, "http://127.0.0.1:1", "no address"} {
		began := time.Now()
		if got := completions(t, program(withServer("delete APP")), "delete", "--server", url, ""); len(got) != 0 {
			t.Errorf("%s: %q", url, got)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s: it took %s", url, took)
		}
	}
	t.Setenv("RUNLOT_TOKEN", "")
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	if got := completions(t, program(withServer("delete APP")), "delete", ""); len(got) != 0 {
		t.Errorf("without a token: %q", got)
	}
}

func TestWords(t *testing.T) {
	peek, dev := &cobra.Command{Use: "peek"}, &cobra.Command{Use: "dev"}
	for _, c := range []*cobra.Command{peek, dev} {
		c.Flags().String("state", "", "")
	}
	root := program(peek, dev)
	if got := strings.Join(completions(t, root, "peek", "--state", ""), " "); got != "visible delayed in-flight" {
		t.Errorf("the states of a message are %q", got)
	}
	if _, taken := dev.GetFlagCompletionFunc("state"); taken {
		t.Error("a folder of state completes with the states of a message")
	}
}
