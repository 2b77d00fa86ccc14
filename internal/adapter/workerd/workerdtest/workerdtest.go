// Package workerdtest gives tests the real workerd, found as the product finds it, and runs it on a configuration of
// their own.
package workerdtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runlot/runlot/internal/adapter/binaries"
)

// Binary returns the workerd program.
func Binary(tb testing.TB) string {
	tb.Helper()
	path, err := binaries.Workerd(".")
	if err != nil {
		tb.Fatalf("workerdtest: %v", err)
	}
	return path
}

// Serve runs workerd on a configuration until the test ends; files that it embeds are in dir. The configuration is the
// constant config and has one socket, with the address 127.0.0.1:0. Serve returns the URL of the port that it got, with a
// slash at the end.
func Serve(tb testing.TB, dir, config string) string {
	tb.Helper()
	file := filepath.Join(dir, "config.capnp")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		tb.Fatalf("workerdtest: %v", err)
	}
	binary := Binary(tb)
	control, theirs, err := os.Pipe()
	if err != nil {
		tb.Fatalf("workerdtest: %v", err)
	}
	defer control.Close()
	var stderr strings.Builder
	cmd := exec.Command(binary, "serve", file, "config", "--control-fd=3") //nolint:noctx // the end of the test ends it
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stderr = &stderr
	err = cmd.Start()
	_ = theirs.Close()
	if err != nil {
		tb.Fatalf("workerdtest: %v", err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended by itself
		_ = cmd.Wait()
		http.DefaultClient.CloseIdleConnections()
	})
	line, err := bufio.NewReader(control).ReadString('\n')
	if err != nil {
		_ = cmd.Wait() // what it said is complete then
		tb.Fatalf("workerdtest: workerd does not start: %s", stderr.String())
	}
	var event struct{ Port int }
	if err := json.Unmarshal([]byte(line), &event); err != nil {
		tb.Fatalf("workerdtest: %s: %v", line, err)
	}
	return fmt.Sprintf("http://127.0.0.1:%d/", event.Port)
}

// Get requests a URL and returns the body of the answer, whatever its status.
func Get(tb testing.TB, url string) string {
	tb.Helper()
	response, err := http.Get(url) //nolint:gosec,noctx // the test's own server
	if err != nil {
		tb.Fatalf("workerdtest: %v", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		tb.Fatalf("workerdtest: %v", err)
	}
	return string(text)
}
