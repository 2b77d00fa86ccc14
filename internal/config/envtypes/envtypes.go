// Package envtypes writes the TypeScript declaration of an app's env, from its configuration, over the types of the npm
// package @cloudflare/workers-types.
package envtypes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/runlot/runlot/internal/config"
)

// Mark begins every declaration that Declare writes, so that a file of a person's own is told apart.
const Mark = "// Made by `runlot types"

var identifier = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`)

// Declare returns the text of env.d.ts. The same configuration gives the same text: bindings in the order of the
// configuration, then vars and secrets by name. env is the environment of a wrangler file that was loaded, or "".
func Declare(l *config.Loaded, env string) string {
	m := l.Manifest
	var b strings.Builder
	called := "runlot types"
	if env != "" {
		called += " --env " + env
	}
	fmt.Fprintf(&b, "// Made by `%s` from %s; run it again after a change there.\n", called, filepath.Base(l.File))
	b.WriteString("/// <reference types=\"@cloudflare/workers-types\" />\n\ndeclare namespace Cloudflare {\n  interface Env {\n")
	line := func(name, kind, about string) {
		if about != "" {
			fmt.Fprintf(&b, "    /** %s */\n", strings.ReplaceAll(about, "*/", "*\\/"))
		}
		fmt.Fprintf(&b, "    %s: %s;\n", key(name), kind)
	}
	for i := range m.Producers {
		line(m.Producers[i].Binding, "Queue<unknown>", "Sends to the queue "+m.Producers[i].Queue+".")
	}
	for _, s := range m.Stores() {
		line(s.Binding, s.Type, "The "+s.Kind+" "+oneLine(s.Name)+".")
	}
	if m.DatabaseBinding != "" {
		line(m.DatabaseBinding, "Hyperdrive", "The PostgreSQL database "+m.Database+", which holds the queues.")
	}
	for _, name := range slices.Sorted(maps.Keys(m.Vars)) {
		line(name, typeOf(m.Vars[name], "    "), "")
	}
	for _, name := range slices.Sorted(maps.Keys(l.Secrets)) {
		line(name, "string", "A secret.")
	}
	b.WriteString("  }\n}\n\ninterface Env extends Cloudflare.Env {}\n")
	return b.String()
}

func key(name string) string {
	if identifier.MatchString(name) {
		return name
	}
	return quote(name)
}

// quote writes a string as JavaScript reads it, which JSON is but for what HTML needs.
func quote(text string) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		panic("envtypes: a string always marshals: " + err.Error())
	}
	return strings.TrimSpace(b.String())
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// typeOf is the type of a value: what a reader may rely on when the value is another one tomorrow.
func typeOf(value json.RawMessage, indent string) string {
	var v any
	if err := json.Unmarshal(value, &v); err != nil {
		return "unknown"
	}
	return shape(v, indent)
}

func shape(v any, indent string) string {
	switch v := v.(type) {
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "boolean"
	case nil:
		return "null"
	case []any:
		return elements(v, indent)
	case map[string]any:
		if len(v) == 0 {
			return "Record<string, never>"
		}
		var b strings.Builder
		b.WriteString("{\n")
		for _, name := range slices.Sorted(maps.Keys(v)) {
			fmt.Fprintf(&b, "%s  %s: %s;\n", indent, key(name), shape(v[name], indent+"  "))
		}
		b.WriteString(indent + "}")
		return b.String()
	default:
		return "unknown"
	}
}

func elements(list []any, indent string) string {
	var kinds []string
	for _, v := range list {
		if kind := shape(v, indent); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	switch len(kinds) {
	case 0:
		return "unknown[]"
	case 1:
		return kinds[0] + "[]"
	default:
		return "(" + strings.Join(kinds, " | ") + ")[]"
	}
}
