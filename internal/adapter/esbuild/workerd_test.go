package esbuild

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runlot/runlot/internal/adapter/workerd/workerdtest"
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
	return workerdtest.Serve(t, dir, config)
}
