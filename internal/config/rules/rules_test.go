package rules

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/schema"
)

// workerd returns the binary that package-lock.json pins.
func workerd(t *testing.T) string {
	t.Helper()
	arch := map[string]string{"amd64": "64", "arm64": "arm64"}[runtime.GOARCH]
	path, err := filepath.Abs("../../../node_modules/@cloudflare/workerd-" + runtime.GOOS + "-" + arch + "/bin/workerd")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the pinned workerd is not there (npm ci brings it): %v", err)
	}
	return path
}

// serve starts workerd with a worker of this date and these flags, without its experimental features, and returns what it
// says. A configuration with errors in it ends by itself.
func serve(t *testing.T, date string, flags []string) string {
	t.Helper()
	quoted := make([]string, len(flags))
	for i, f := range flags {
		quoted[i] = strconv.Quote(f)
	}
	config := `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (services = [(name = "main", worker = (compatibilityDate = "` + date + `",
  modules = [(name = "main.js", esModule = "export default {}")], compatibilityFlags = [` + strings.Join(quoted, ", ") + `]))]);`
	file := filepath.Join(t.TempDir(), "config.capnp")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), workerd(t), "serve", file, "config").CombinedOutput()
	if err == nil {
		t.Fatalf("workerd accepts it: %s", out)
	}
	return string(out)
}

// TestExperimentalFlagsAreThoseOfTheRuntime gives workerd every word of its own binary as a flag: what it calls
// experimental is what the list refuses, no more and no less.
func TestExperimentalFlagsAreThoseOfTheRuntime(t *testing.T) {
	binary, err := os.ReadFile(workerd(t))
	if err != nil {
		t.Fatal(err)
	}
	word := regexp.MustCompile(`^[a-z][a-z0-9_-]{2,90}$`)
	var words []string
	for w := range bytes.SplitSeq(binary, []byte{0}) {
		if len(w) <= 91 && word.Match(w) {
			words = append(words, string(w))
		}
	}
	slices.Sort(words)
	words = slices.Compact(words)
	out := serve(t, NewestDate, words)
	got := map[string]bool{}
	for _, m := range regexp.MustCompile(`The compatibility flag (\S+) is experimental`).FindAllStringSubmatch(out, -1) {
		got[m[1]] = true
	}
	if diff := cmp.Diff(experimental, got); diff != "" {
		t.Errorf("the list is not that of the runtime (-list +runtime):\n%s", diff)
	}
}

// TestNewestDateIsKnown: the runtime takes the newest date; the flag that does not exist only keeps it from starting.
func TestNewestDateIsKnown(t *testing.T) {
	if out := serve(t, NewestDate, []string{"no_such_flag"}); strings.Contains(out, "compatibility date") || !strings.Contains(out, "No such compatibility flag") {
		t.Error(out)
	}
	if out := serve(t, "2999-01-01", []string{"no_such_flag"}); !strings.Contains(out, "compatibility date") {
		t.Errorf("a date of the far future passes: %s", out)
	}
}

// TestSchemaKnowsTheSameFlags: the JSON Schema refuses the same list.
func TestSchemaKnowsTheSameFlags(t *testing.T) {
	var document struct {
		Properties struct {
			CompatibilityFlags struct {
				Items struct {
					Not struct {
						AnyOf []struct {
							Enum []string `json:"enum"`
						} `json:"anyOf"`
					} `json:"not"`
				} `json:"items"`
			} `json:"compatibilityFlags"`
			CompatibilityDate struct {
				Description string   `json:"description"`
				Examples    []string `json:"examples"`
			} `json:"compatibilityDate"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(schema.Runlot, &document); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, rule := range document.Properties.CompatibilityFlags.Items.Not.AnyOf {
		for _, flag := range rule.Enum {
			got[flag] = true
		}
	}
	if diff := cmp.Diff(experimental, got); diff != "" {
		t.Errorf("the schema has other flags (-rules +schema):\n%s", diff)
	}
	date := document.Properties.CompatibilityDate
	if !strings.Contains(date.Description, NewestDate) || !slices.Contains(date.Examples, NewestDate) {
		t.Errorf("the schema names another newest date than %s", NewestDate)
	}
}

func TestSpelling(t *testing.T) {
	for camel, snake := range map[string]string{"queue": "queue", "maxBatchSize": "max_batch_size", "deadLetterQueue": "dead_letter_queue"} {
		if got := Snake(camel); got != snake {
			t.Errorf("Snake(%q) = %q, want %q", camel, got, snake)
		}
		if got := Camel(camel); got != camel {
			t.Errorf("Camel(%q) = %q", camel, got)
		}
	}
}
