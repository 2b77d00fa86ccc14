package cli_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runlot/runlot/internal/cli"
)

// TestNoPasswordIsShown: whatever is wrong with an address, and wherever it stands, nothing that is printed repeats the
// password in it.
func TestNoPasswordIsShown(t *testing.T) {
	const marker = "hunter2"
	dir := t.TempDir()
	app := filepath.Join(dir, "app")
	if err := os.Mkdir(app, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"runlot.json": `{"name": "app", "main": "index.js", "database": "app"}`, "index.js": "export default { fetch() {} };",
	} {
		if err := os.WriteFile(filepath.Join(app, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	urls := []string{
		"postgres://u:hunter2@127.0.0.1:port/x", "postgres://u:hunter2@127.0.0.1:1/x", "postgres://u:a/hunter2@127.0.0.1:1/x",
		"postgres://u:1/hunter2@127.0.0.1:1/x", "postgres://u:1?hunter2@127.0.0.1:1/x", "postgres://u:1#hunter2@127.0.0.1:1/x",
		"postgres://u:a@hunter2@127.0.0.1:1/x", "postgres://u@hunter2@127.0.0.1:1/x", "postgres://u:%hunter2@127.0.0.1:1/x",
		"postgres://u:a hunter2@127.0.0.1:1/x", "postgres://u:\"hunter2@127.0.0.1:1/x", "postgres:/u:hunter2@127.0.0.1:1/x",
		"postgresql:u:hunter2@127.0.0.1", "postgre://u:hunter2@127.0.0.1:1/x", "u:hunter2@127.0.0.1", "hunter2",
		"Postgres://u:hunter2@127.0.0.1:1/x", "host=127.0.0.1 password=hunter2", "app=host=127.0.0.1 password=hunter2",
		"app=postgres://u:hunter2@127.0.0.1:port/x", "postgres://127.0.0.1:1/x?password=hunter2&port=x",
	}
	var lines [][]string
	// Were its other values accepted, it would still end.
	dead := slices.Clip([]string{"dev", app, "--database-url", "postgres://127.0.0.1:1/x"})
	state := []string{"--state", filepath.Join(dir, "state"), "--port", "0"}
	for _, url := range urls {
		lines = append(lines, append([]string{"dev", app, "--database-url", url}, state...))
		if strings.HasPrefix(strings.ToLower(url), "postgres") {
			lines = append(lines,
				[]string{url}, []string{"dev", url}, []string{"check", url}, []string{"pg", "url", url}, []string{"version", url}, []string{"pg", url},
				append(dead, "--state", url), append(dead, "--host", url), append(dead, "--port", url),
				[]string{"check", app, "--config", url}, []string{"check", app, "--env", url}, []string{"check", "--database-url", url},
				[]string{"dev", app, "--database-ulr=" + url}, []string{"dev", app, "--request", url, "--config", "none"},
			)
		}
	}
	modules, err := filepath.Abs("../../node_modules")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir) // a mistake must not leave folders elsewhere
	for _, line := range lines {
		out, err := os.Create(filepath.Join(dir, "out"))
		if err != nil {
			t.Fatal(err)
		}
		code := cli.Runlot("v0", line, os.Stdin, out, out)
		_ = out.Close()
		text, err := os.ReadFile(out.Name())
		if err != nil {
			t.Fatal(err)
		}
		if code == cli.ExitOK {
			t.Errorf("runlot %q: accepted", line)
		}
		if strings.Contains(string(text), marker) {
			t.Errorf("runlot %q says:\n%s", line, text)
		}
	}
}
