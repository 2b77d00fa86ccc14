// Package assets holds the files that the page loads: they are made by the program in the folder bundle, embedded, and
// served under names that change with their content, so that a browser keeps them for good.
package assets

import (
	"embed"
	"encoding/json"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

// Prefix is the path under which the files are served.
const Prefix = "/assets/"

// ManifestName is the file that the bundler leaves beside the others: the names of the sources and what became of them.
const ManifestName = "manifest.json"

// A program that was built without the bundler before has the placeholder alone.
//
//go:embed all:dist
var dist embed.FS

// Files are the files of a page.
type Files struct {
	files fs.FS
	paths map[string]string
}

// Embedded are the files of this program.
func Embedded() *Files {
	sub, err := fs.Sub(dist, "dist")
	if err != nil {
		panic("assets: the embedded folder is always there: " + err.Error())
	}
	return load(sub)
}

func load(files fs.FS) *Files {
	f := &Files{files: files, paths: map[string]string{}}
	text, err := fs.ReadFile(files, ManifestName)
	if err == nil {
		err = json.Unmarshal(text, &f.paths)
	}
	if err != nil {
		f.paths = map[string]string{}
	}
	return f
}

// Missing reports that the program was built without its files.
func (f *Files) Missing() bool { return len(f.paths) == 0 }

// Path is the path of a file ("page.js") under its present name; "" for one that is not there.
func (f *Files) Path(name string) string {
	if hashed := f.paths[name]; hashed != "" {
		return Prefix + hashed
	}
	return ""
}

// types are those of the files that the bundler makes. The system's own table may say otherwise, or nothing.
var types = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}

// ServeHTTP implements http.Handler. What has no hashed name is not there.
func (f *Files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, Prefix)
	for _, hashed := range f.paths {
		if hashed != name {
			continue
		}
		text, err := fs.ReadFile(f.files, name)
		if err != nil {
			break
		}
		w.Header().Set("Content-Type", types[path.Ext(name)])
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		_, _ = w.Write(text) //nolint:gosec // G705: the name is one of the manifest, and the file is this program's own
		return
	}
	http.NotFound(w, r)
}
