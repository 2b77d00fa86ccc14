package esbuild

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/runlot/runlot/internal/core/app"
)

// root is the top folder of the source tree.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// serve runs a bundle on a real workerd until the test ends and returns its address.
func serve(t *testing.T, b *app.Bundle) string {
	t.Helper()
	dir := t.TempDir()
	var modules strings.Builder
	for _, m := range b.Modules {
		if err := os.WriteFile(filepath.Join(dir, m.Name), m.Body, 0o600); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&modules, "(name = %q, %s = embed %q),", m.Name, m.Kind, m.Name)
	}
	code := "modules = [" + modules.String() + "]"
	if b.ServiceWorker {
		code = fmt.Sprintf("serviceWorkerScript = embed %q", MainModule)
	}
	config := fmt.Sprintf(`using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "user", worker = (%s, compatibilityDate = "2026-11-01"))],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "user")]);`, code)
	if err := os.WriteFile(filepath.Join(dir, "config.capnp"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	control, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	binaries, err := filepath.Glob(filepath.Join(root(t), "node_modules/@cloudflare/workerd-*/bin/workerd"))
	if err != nil || len(binaries) == 0 {
		t.Fatalf("no workerd in node_modules: run npm ci (%v)", err)
	}
	var stderr strings.Builder
	cmd := exec.Command(binaries[0], "serve", filepath.Join(dir, "config.capnp"), "config", "--control-fd=3")
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
		http.DefaultClient.CloseIdleConnections()
	})
	line, err := bufio.NewReader(control).ReadString('\n')
	if err != nil {
		_ = cmd.Wait()
		t.Fatalf("workerd does not start: %s", stderr.String())
	}
	var port int
	_, number, _ := strings.Cut(line, `"port":`)
	if _, err := fmt.Sscanf(number, "%d", &port); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return fmt.Sprintf("http://127.0.0.1:%d/", port)
}

func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
