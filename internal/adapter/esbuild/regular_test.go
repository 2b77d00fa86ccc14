package esbuild

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestOnlyFilesAreBundled: a build does not wait for the writer of a named pipe.
func TestOnlyFilesAreBundled(t *testing.T) {
	for _, name := range []string{"index.ts", "other.ts", "page.html"} {
		project := files{
			"index.ts": `import "./other.ts"; import page from "./page.html"; export default { fetch: () => new Response(page) }`,
			"other.ts": "", "page.html": "",
		}
		delete(project, name)
		dir := project.write(t)
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Bundle(t.Context(), Options{Dir: dir, Main: "index.ts"}); err == nil || !strings.Contains(err.Error(), "is not a file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
