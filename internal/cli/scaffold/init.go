// Package scaffold is the commands that write files of a project: a first one, and the types of its env.
package scaffold

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/config"
	"github.com/runlot/runlot/internal/config/envtypes"
	"github.com/runlot/runlot/internal/config/rules"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/schema"
)

//go:embed templates
var templates embed.FS

// CodeExists is the code of the fault that Init returns rather than overwrite a file.
const CodeExists = "file_exists"

// Dialects of --dialect.
const (
	dialectRunlot   = "runlot"
	dialectWrangler = "wrangler"
)

// defaultName is the name of an app whose folder has none that could be one.
const defaultName = "my-app"

// configs are the files of which a project has one.
var configs = []string{"runlot.json", "wrangler.json", "wrangler.jsonc", "wrangler.toml"}

// app is what the templates are filled in with.
type app struct {
	Name, Queue, Config, Ext, Date string
	JavaScript, Wrangler           bool
}

// file is one that is written: what is in it, and its path below the folder.
type file struct {
	path string
	text []byte
}

// Init writes a project that works.
func Init() *cobra.Command {
	var dialect string
	var typescript bool
	c := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a first project that works",
		Long: `init writes a project into DIR (this folder by default): a configuration, a
Worker with a queue, and the types of its env. The app is named after the
folder. Files that are there already are not touched: where one is in the way,
nothing is written.`,
		Example: `  runlot init my-app --ts
  runlot init my-app --dialect wrangler`,
		Args: command.Args(0, 1, "folder"),
		RunE: func(c *cobra.Command, dirs []string) error {
			if dialect != dialectRunlot && dialect != dialectWrangler {
				return command.Usage("--dialect takes %s or %s, not %q", dialectRunlot, dialectWrangler, dialect)
			}
			dir := append(dirs, ".")[0]
			written, err := write(dir, dialect == dialectWrangler, typescript)
			if err != nil {
				return err
			}
			out := command.Stdout(c)
			for _, path := range written {
				if _, err := fmt.Fprintf(out, "wrote %s\n", filepath.Join(dir, path)); err != nil {
					return err
				}
			}
			next := os.Args[0] + " dev" // as the person has just called this program
			if dir != "." {
				next += " " + shown(dir)
			}
			_, err = fmt.Fprintf(out, "\nNext:\n  %s --request /hello\n", next)
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&dialect, "dialect", dialectRunlot, "`FORM` of the configuration: runlot (runlot.json) or\nwrangler (wrangler.jsonc)")
	f.BoolVar(&typescript, "ts", false, "write TypeScript instead of JavaScript")
	command.Must(c.RegisterFlagCompletionFunc("dialect", cobra.FixedCompletions([]string{dialectRunlot, dialectWrangler}, cobra.ShellCompDirectiveNoFileComp)))
	c.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return c
}

// shown is a path as a shell takes it.
func shown(path string) string {
	if plain.MatchString(path) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_./+@:,-]+$`)

// write makes the files of a project in a folder and returns their paths below it.
func write(dir string, wrangler, typescript bool) ([]string, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, unwritable(dir, err)
	}
	a := app{Name: nameOf(filepath.Base(absolute)), Config: configs[0], Ext: "js", Date: rules.NewestDate, JavaScript: !typescript, Wrangler: wrangler}
	if typescript {
		a.Ext = "ts"
	}
	if wrangler {
		a.Config = "wrangler.jsonc"
	}
	a.Queue = queueOf(a.Name)
	files := fill(&a)
	if err := vacant(dir, files); err != nil {
		return nil, err
	}
	var written []string
	for _, f := range files {
		if err := create(dir, f); err != nil {
			return nil, err
		}
		written = append(written, f.path)
	}
	// The types are those of the configuration as it is read, with the secrets that the folder may have already.
	loaded, err := config.Load(dir, config.Choice{File: a.Config})
	if err != nil {
		return nil, err
	}
	if err := create(dir, file{typesFile, []byte(envtypes.Declare(loaded, ""))}); err != nil {
		return nil, err
	}
	return append(written, typesFile), nil
}

// fill makes the files of an app, all but its types.
func fill(a *app) []file {
	from := []struct{ path, template string }{
		{a.Config, a.Config},
		{"src/index." + a.Ext, "index." + a.Ext},
		{"package.json", "package.json"},
		{"tsconfig.json", "tsconfig.json"},
		{".gitignore", "gitignore"},
		{"README.md", "README.md"},
	}
	files := make([]file, 0, len(from)+1)
	for _, f := range from {
		var b bytes.Buffer
		t := template.Must(template.ParseFS(templates, "templates/"+f.template))
		if err := t.Execute(&b, a); err != nil {
			panic("scaffold: a template asks for what there is not: " + err.Error())
		}
		files = append(files, file{f.path, b.Bytes()})
	}
	if !a.Wrangler {
		files = slices.Insert(files, 1, file{"runlot.schema.json", schema.Runlot})
	}
	return files
}

// vacant refuses a folder that has a file of the project already, or a configuration of any kind.
func vacant(dir string, files []file) error {
	paths := append(slices.Clone(configs), typesFile)
	for _, f := range files {
		if !slices.Contains(paths, f.path) {
			paths = append(paths, f.path)
		}
	}
	var there []string
	for _, path := range paths {
		switch _, err := os.Lstat(filepath.Join(dir, path)); {
		case err == nil:
			there = append(there, path)
		case !errors.Is(err, fs.ErrNotExist):
			return unwritable(filepath.Join(dir, path), err)
		}
	}
	if len(there) > 0 {
		return fault.New(fault.Conflict, CodeExists, "%s has %s already; nothing was written", dir, strings.Join(there, ", ")).
			WithHint("name a folder of its own: runlot init my-app")
	}
	return nil
}

// create writes a file that is not there yet.
func create(dir string, f file) error {
	path := filepath.Join(dir, filepath.FromSlash(f.path))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // a project is read by whoever reads its folder
		return unwritable(filepath.Dir(path), err)
	}
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // the same
	if err != nil {
		return unwritable(path, err)
	}
	_, err = to.Write(f.text)
	if err := errors.Join(err, to.Close()); err != nil {
		return unwritable(path, err)
	}
	return nil
}

func unwritable(path string, err error) error {
	reason := err
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		reason = p.Err
	}
	return fault.New(fault.Environment, "file_unwritable", "%s cannot be written: %s", path, reason).
		WithHint("look at its kind and its rights").WithCause(err)
}

var notName = regexp.MustCompile(`[^a-z0-9]+`)

// nameOf makes the name of an app of that of its folder.
func nameOf(folder string) string {
	name := strings.Trim(notName.ReplaceAllString(strings.ToLower(folder), "-"), "-")
	if name == "" {
		return defaultName
	}
	return longest(name, "")
}

// queueOf is the name of an app's queue where all apps share theirs, with room for "-dead" behind it.
func queueOf(name string) string { return longest(name, "-jobs-dead") + "-jobs" }

// longest is as much of a name as is a valid one with an ending.
func longest(name, ending string) string {
	for len(name) > 1 && (!queue.ValidName(name+ending) || !queue.ValidName(name)) {
		name = name[:len(name)-1]
	}
	return name
}
