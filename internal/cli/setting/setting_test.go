package setting

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/runlot/runlot/internal/core/fault"
)

type values struct {
	listen string
	urls   []string
	park   time.Duration
	allow  bool
}

func newSet() (*Set, *values, *pflag.FlagSet) {
	v, f := &values{}, pflag.NewFlagSet("celld", pflag.ContinueOnError)
	f.StringVar(&v.listen, "listen", ":1", "`ADDRESS` to listen on\nor so")
	f.StringArrayVar(&v.urls, "database-url", nil, "`URL` of a database")
	f.DurationVar(&v.park, "park-after", time.Minute, "`TIME` to park")
	f.BoolVar(&v.allow, "allow-private", false, "allow")
	f.String("config", "", "no setting")
	s := New("CELLD_", f)
	s.Add("listen", "database-url", "park-after", "allow-private")
	return s, v, f
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "celld.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheCommandLineBeatsTheEnvironmentBeatsTheFile(t *testing.T) {
	s, v, f := newSet()
	if err := f.Parse([]string{"--listen", ":2"}); err != nil {
		t.Fatal(err)
	}
	path := file(t, "listen = \":4\"\npark-after = \"2h\"\ndatabase-url = [\"a\", \"b\"]\nallow-private = true\n")
	if err := s.Read([]string{"CELLD_LISTEN=:3", "CELLD_PARK_AFTER=1h", "HOME=/"}, path); err != nil {
		t.Fatal(err)
	}
	if v.listen != ":2" || v.park != time.Hour || strings.Join(v.urls, " ") != "a b" || !v.allow {
		t.Errorf("settings %+v", v)
	}
}

func TestNothingIsIgnored(t *testing.T) {
	for name, test := range map[string]struct {
		environment []string
		text        string
		want        string
	}{
		"an unknown variable":  {[]string{"CELLD_LISTN=1"}, "", "did you mean listen?"},
		"an unknown key":       {nil, "Listen = \":1\"", `there is no setting "Listen"`},
		"a flag that is none":  {nil, "config = \"x\"", `there is no setting "config"`},
		"a table":              {nil, "[listen]\nx = 1", "takes a text"},
		"a list of numbers":    {nil, "database-url = [1]", "takes a text"},
		"two for one":          {nil, "listen = [\"a\", \"b\"]", "takes one value, not 2"},
		"no time":              {nil, "park-after = \"soon\"", `"soon" is no value for park-after`},
		"no time, environment": {[]string{"CELLD_PARK_AFTER=soon"}, "", "the environment variable CELLD_PARK_AFTER"},
		"no TOML":              {nil, "listen", "it is TOML"},
	} {
		s, _, _ := newSet()
		err := s.Read(test.environment, file(t, test.text))
		if err == nil || !strings.Contains(err.Error(), test.want) || fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	s, _, _ := newSet()
	for _, path := range []string{t.TempDir(), "/dev/zero", filepath.Join(t.TempDir(), "none")} {
		if err := s.Read(nil, path); err == nil || fault.From(err).Code != "settings_file" {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestTable(t *testing.T) {
	s, _, _ := newSet()
	want := "| `listen` `ADDRESS` | `CELLD_LISTEN` | `:1` | ADDRESS to listen on or so |\n"
	if table := s.Table(); !strings.Contains(table, want) {
		t.Errorf("table:\n%s", table)
	}
}
