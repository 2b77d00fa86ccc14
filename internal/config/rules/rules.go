// Package rules holds what both configuration dialects agree on: the declarations that they share, each with its range,
// its default and the way out when it is broken. A dialect brings its spelling of the keys and the rules of its own.
package rules

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/runlot/runlot/internal/config/source"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/queue"
)

// Spelling writes a key, given in camelCase, as a dialect does.
type Spelling func(key string) string

// Camel is the spelling of runlot.json.
func Camel(key string) string { return key }

// Snake is the spelling of wrangler's files.
func Snake(key string) string {
	b := &strings.Builder{}
	for _, r := range key {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// Name reads a required app or database name; example is what the hint offers when it is missing.
func Name(parent source.Value, key, what, example string) string {
	v := parent.Get(key)
	if !v.Exists() {
		parent.Refusef("add "+v.Line(key, `"`+example+`"`), "`%s` is missing", key)
		return ""
	}
	return CheckName(v, what)
}

// CheckName reads a name that keeps the rule of queue names: of an app ("an app name"), a database or a queue.
func CheckName(v source.Value, what string) string {
	name, ok := v.Text()
	if !ok {
		return ""
	}
	if !queue.ValidName(name) {
		v.Refusef(nameHint(name), "%s is not a name: %s", source.Quote(name), strings.Replace(queue.NameRule, "a queue name", what, 1))
		return ""
	}
	return name
}

var notNameCharacters = regexp.MustCompile(`[^a-z0-9]+`)

// nameHint offers a valid name near an invalid one.
func nameHint(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII }) {
		return ""
	}
	near := strings.Trim(notNameCharacters.ReplaceAllString(strings.ToLower(name), "-"), "-")
	if !queue.ValidName(near) {
		return ""
	}
	return `write "` + near + `"`
}

// Main reads the entry module: a file of the project, given relative to its folder.
func Main(v source.Value) string {
	text, ok := v.Text()
	if !ok {
		return ""
	}
	clean := path.Clean(text)
	switch {
	case strings.Contains(text, `\`):
		v.Refusef("write "+v.Line(v.Key(), source.Quote(strings.ReplaceAll(text, `\`, "/"))), "a path is written with /, not with \\")
	case path.IsAbs(text), clean == "..", strings.HasPrefix(clean, "../"), clean == ".":
		v.Refusef("give it relative to the folder of this file, like "+v.Line(v.Key(), `"src/index.ts"`),
			"`%s` must be a file of the project, found %s", v.Key(), source.Quote(text))
	default:
		return clean
	}
	return ""
}

// Vars reads plain values for env.
func Vars(v source.Value, names Names) map[string]json.RawMessage {
	members := v.Members()
	if len(members) == 0 {
		return nil
	}
	vars := make(map[string]json.RawMessage, len(members))
	for _, m := range members {
		if !names.claim(m, m.Key(), m.RefuseKeyf) {
			continue
		}
		if text, ok := m.JSON(); ok {
			vars[m.Key()] = text
		}
	}
	return vars
}

// Names are the names of env that are taken, each with the path of what took it.
type Names map[string]string

// bindingKey is the key of the name under which a binding stands in env.
const bindingKey = "binding"

// Binding reads the name under which a binding stands in env.
func (n Names) Binding(entry source.Value, example string) string {
	return n.bound(entry, bindingKey, example)
}

// bound reads the name under another key.
func (n Names) bound(entry source.Value, key, example string) string {
	v := entry.Get(key)
	if !v.Exists() {
		entry.Refusef("add "+v.Line(key, `"`+example+`"`), "`%s`, the name in env, is missing", key)
		return ""
	}
	name, ok := v.Text()
	if !ok || !n.claim(v, name, v.Refusef) {
		return ""
	}
	return name
}

var identifier = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`)

// ValidBinding reports whether a name can stand in env: an ASCII identifier of JavaScript, so that env.NAME reaches it.
// Reserved words are fine behind a dot; __proto__ is not, because assigning to it does something else.
func ValidBinding(name string) bool { return identifier.MatchString(name) && name != "__proto__" }

// BindingRule says in a sentence what ValidBinding checks.
const BindingRule = "a name in env has letters, digits, _ and $, and starts with no digit"

func (n Names) claim(v source.Value, name string, refuse func(hint, format string, args ...any)) bool {
	if !ValidBinding(name) {
		refuse("write it like JOBS or API_URL", "%s cannot be a name in env: %s", source.Quote(name), BindingRule)
		return false
	}
	if earlier, taken := n[name]; taken {
		refuse("give one of them another name", "the name `%s` is taken in env by %s", name, earlier)
		return false
	}
	n[name] = v.Path()
	return true
}

// Reserve takes a name for something that the file does not spell out.
func (n Names) Reserve(name, what string) { n[name] = what }

// Complete fills in what has to stand in every manifest.
func Complete(m *app.Manifest) {
	if m.CompatibilityDate == "" {
		m.CompatibilityDate = NewestDate
	}
	if len(m.CompatibilityFlags) == 0 {
		m.CompatibilityFlags = nil
	}
	m.CompatibilityFlags = slices.Clip(m.CompatibilityFlags)
}
