// Package setting reads the settings of a daemon: each is a flag, and may also come from the environment or from a
// file, under the same name.
package setting

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Set is the settings of one program: those flags that Add was called for.
type Set struct {
	prefix string
	flags  *pflag.FlagSet
	names  []string
}

// New returns a set over flags. The environment variable of a setting is prefix and its name, "CELLD_LISTEN" for example.
func New(prefix string, flags *pflag.FlagSet) *Set { return &Set{prefix: prefix, flags: flags} }

// Add makes flags settings. They have to be defined.
func (s *Set) Add(names ...string) { s.names = append(s.names, names...) }

// Variable is the environment variable of a setting.
func (s *Set) Variable(name string) string {
	return s.prefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// Read fills in the settings that the command line left out: from the environment, then from the file, unless it is "".
// What neither of them can mean is refused: nothing is ignored.
func (s *Set) Read(environment []string, file string) error {
	given := map[string]bool{}
	for _, name := range s.names {
		given[name] = s.flags.Lookup(name).Changed
	}
	for _, pair := range environment {
		variable, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(variable, s.prefix) {
			continue
		}
		i := slices.IndexFunc(s.names, func(name string) bool { return s.Variable(name) == variable })
		if i < 0 {
			return fault.New(fault.Invalid, "setting_unknown", "there is no setting for the environment variable %s", variable).
				WithHint("%s", s.near(strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(variable, s.prefix), "_", "-"))))
		}
		if name := s.names[i]; !given[name] {
			if err := s.set(name, []string{value}, "the environment variable "+variable); err != nil {
				return err
			}
			given[name] = true
		}
	}
	if file == "" {
		return nil
	}
	return s.readFile(file, given)
}

func (s *Set) readFile(file string, given map[string]bool) error {
	info, err := os.Stat(file)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > queue.MaxConfigFile) {
		return fault.New(fault.Invalid, "settings_file", "%s is not a file of settings", file).WithHint("name a TOML file of at most %d bytes", queue.MaxConfigFile)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fault.New(fault.Environment, "settings_file", "the settings in %s cannot be read", file).WithHint("check that it exists and may be read").WithCause(err)
	}
	values := map[string]any{}
	if err := toml.Unmarshal(text, &values); err != nil {
		return fault.New(fault.Invalid, "settings_file", "%s: %s", file, err).WithHint("it is TOML: listen = \":8787\"")
	}
	for key, value := range values {
		if !slices.Contains(s.names, key) {
			return fault.New(fault.Invalid, "setting_unknown", "%s: there is no setting %q", file, key).WithHint("%s", s.near(key))
		}
		if given[key] {
			continue
		}
		list, ok := texts(value)
		if !ok {
			return fault.New(fault.Invalid, "setting_invalid", "%s: %s takes a text, a number, true, false or a list of texts", file, key)
		}
		if err := s.set(key, list, file); err != nil {
			return err
		}
	}
	return nil
}

// texts are the values of a setting in a file.
func texts(value any) ([]string, bool) {
	switch v := value.(type) {
	case string, bool, int64, float64:
		return []string{fmt.Sprint(v)}, true
	case []any:
		list := make([]string, 0, len(v))
		for _, one := range v {
			text, ok := one.(string)
			if !ok {
				return nil, false
			}
			list = append(list, text)
		}
		return list, true
	default:
		return nil, false
	}
}

func (s *Set) set(name string, values []string, where string) error {
	flag := s.flags.Lookup(name)
	_, many := flag.Value.(pflag.SliceValue)
	if len(values) != 1 && !many {
		return fault.New(fault.Invalid, "setting_invalid", "%s: %s takes one value, not %d", where, name, len(values))
	}
	for _, value := range values {
		if err := s.flags.Set(name, value); err != nil {
			_, usage := pflag.UnquoteUsage(flag)
			usage, _, _ = strings.Cut(usage, "\n")
			return fault.New(fault.Invalid, "setting_invalid", "%s: %q is no value for %s", where, value, name).WithHint("%s: %s", name, usage)
		}
	}
	return nil
}

// near is the way out after a name that is none.
func (s *Set) near(name string) string {
	names := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, known := range s.names {
		names.AddCommand(&cobra.Command{Use: known, Run: func(*cobra.Command, []string) {}})
	}
	if near := names.SuggestionsFor(name); len(near) > 0 {
		return fmt.Sprintf("did you mean %s?", near[0])
	}
	return "the settings are " + strings.Join(s.names, ", ")
}

// Table is the settings as a table in Markdown.
func (s *Set) Table() string {
	var b strings.Builder
	b.WriteString("| setting | environment | default | meaning |\n|---|---|---|---|\n")
	for _, name := range s.names {
		flag := s.flags.Lookup(name)
		value, usage := pflag.UnquoteUsage(flag)
		shown := flag.DefValue
		if shown == "" || shown == "[]" {
			shown = "none"
		} else {
			shown = "`" + shown + "`"
		}
		if value != "" {
			value = " `" + value + "`"
		}
		fmt.Fprintf(&b, "| `%s`%s | `%s` | %s | %s |\n", name, value, s.Variable(name), shown, strings.ReplaceAll(strings.TrimSpace(usage), "\n", " "))
	}
	return b.String()
}
