// Command bundle makes the files that the page loads from their sources and from npm packages, and leaves them in the
// folder that is embedded: go run ./internal/server/dashboard/assets/bundle, in the root of the repository.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/runlot/runlot/internal/server/dashboard/assets"
)

const (
	folder = "internal/server/dashboard/assets"
	keep   = ".gitkeep"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	dist := filepath.Join(root, folder, "dist")
	result := api.Build(api.BuildOptions{
		AbsWorkingDir: root, EntryNames: "[name]-[hash]", Outdir: dist,
		EntryPoints: []string{folder + "/src/page.js", folder + "/src/page.css", folder + "/src/icon.svg"}, Loader: map[string]api.Loader{".svg": api.LoaderCopy},
		Bundle: true, Format: api.FormatESModule, Target: api.ES2022, MinifyWhitespace: true, MinifyIdentifiers: true, MinifySyntax: true,
		LegalComments: api.LegalCommentsEndOfFile, Metafile: true, LogLevel: api.LogLevelWarning,
	})
	if len(result.Errors) > 0 {
		return errors.New("the sources of the page cannot be bundled")
	}
	if err := empty(dist); err != nil {
		return err
	}
	names, err := manifest(result.Metafile)
	if err != nil {
		return err
	}
	for i := range result.OutputFiles {
		f := &result.OutputFiles[i]
		if err := os.WriteFile(f.Path, f.Contents, 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dist, assets.ManifestName), names, 0o600)
}

// empty removes what the last run left.
func empty(dist string) error {
	entries, err := os.ReadDir(dist)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != keep {
			err = errors.Join(err, os.Remove(filepath.Join(dist, e.Name())))
		}
	}
	return err
}

// manifest is the names of the sources with those of what was made of them, as JSON.
func manifest(metafile string) ([]byte, error) {
	var meta struct {
		Outputs map[string]struct {
			EntryPoint string              `json:"entryPoint"`
			Inputs     map[string]struct{} `json:"inputs"`
		} `json:"outputs"`
	}
	if err := json.Unmarshal([]byte(metafile), &meta); err != nil {
		return nil, err
	}
	names := map[string]string{}
	for output, o := range meta.Outputs {
		// A file that is copied is an output with one input, and no entry point.
		from := o.EntryPoint
		for input := range o.Inputs {
			from = cmp.Or(o.EntryPoint, input)
		}
		if from != "" {
			names[filepath.Base(from)] = filepath.Base(output)
		}
	}
	text, err := json.MarshalIndent(names, "", "  ")
	return append(text, '\n'), err
}
