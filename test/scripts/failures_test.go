package scripts_test

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/cli"
)

var update = flag.Bool("update", false, "write testdata/failures.golden anew")

// attempt is how a command that talks to a server is called with a queue and an app that there are, and with ones that
// there are not; "-" is a call that no name, or no server, can spoil.
type attempt struct{ known, unknown string }

// attempts has a line for each command that takes --server.
var attempts = map[string]attempt{
	"runlot cron":                    {"--app shop", "--app nosuch"},
	"runlot cron list":               {"--app shop", "--app nosuch"},
	"runlot cron run":                {"shop", "nosuch"},
	"runlot cron runs":               {"--app shop", "--app nosuch"},
	"runlot d1 execute":              {"--remote --app shop --command SELECT", "--remote --app nosuch --command SELECT"},
	"runlot d1 list":                 {"--remote --app shop", "--remote --app nosuch"},
	"runlot d1 migrations apply":     {"--remote --app shop", "--remote --app nosuch"},
	"runlot d1 migrations create":    {"-", "-"}, // it writes a file
	"runlot d1 migrations list":      {"--remote --app shop", "--remote --app nosuch"},
	"runlot delete":                  {"shop --yes", "nosuch --yes"},
	"runlot deploy":                  {"shop", "nowhere"},
	"runlot events":                  {"", "-"},
	"runlot logs":                    {"--queue jobs", "--queue nope"},
	"runlot notices":                 {"", "-"},
	"runlot ps":                      {"", "-"},
	"runlot queue":                   {"", "-"},
	"runlot queue batch":             {"jobs.0000000000000001", "nope.0000000000000001"},
	"runlot queue batches":           {"jobs", "nope"},
	"runlot queue delete":            {"jobs 00000000000000010000000000000001 --yes", "nope --filter x --yes"},
	"runlot queue message":           {"jobs 00000000000000010000000000000001", "jobs 00000000000000010000000000000001"},
	"runlot queue operations":        {"jobs", "nope"},
	"runlot queue operations cancel": {"1", "1"},
	"runlot queue info":              {"jobs", "nope"},
	"runlot queue pause":             {"jobs", "nope"},
	"runlot queue peek":              {"jobs", "nope"},
	"runlot queue purge":             {"jobs --yes", "nope --yes"},
	"runlot queue redrive":           {"jobs --yes", "nope --yes"},
	"runlot queue remove":            {"jobs --yes", "nope --yes"},
	"runlot queue resume":            {"jobs", "nope"},
	"runlot queue retention":         {"jobs 1h", "nope 1h"},
	"runlot queue retry":             {"jobs 00000000000000010000000000000001", "nope --filter x"},
	"runlot queue send":              {"jobs 1", "nope 1"},
	"runlot queue undo":              {"jobs x1", "nope x1"},
	"runlot queue usage":             {"", "-"},
	"runlot rollback":                {"7 --app shop", "7 --app nosuch"},
	"runlot secret delete":           {"KEY --yes --app shop", "KEY --yes --app nosuch"},
	"runlot secret list":             {"--app shop", "--app nosuch"},
	"runlot secret put":              {"KEY --app shop", "K-Y --app nosuch"},
	"runlot subscription create":     {"jobs --all-scripts", "nope --all-scripts"},
	"runlot subscription delete":     {"none", "none"},
	"runlot subscription list":       {"", "-"},
	"runlot subscription show":       {"none", "none"},
	"runlot subscription update":     {"none --enabled=false", "none --enabled=false"},
	"runlot token create":            {"ann", "ann --app nosuch --role admin"},
	"runlot token list":              {"", "-"},
	"runlot token revoke":            {"r4n2kn9a", "r4n2kn9a"},
	"runlot versions":                {"--app shop", "--app nosuch"},
	"runlot whoami":                  {"", "-"},
	"runlot wrangler-env":            {"", "-"},
}

// listed reads the commands from their page, which a test holds to the programs, with whether each takes --server.
func listed(t *testing.T) (commands []string, usage map[string]string, serves map[string]bool) {
	t.Helper()
	page, err := os.ReadFile("../../docs/COMMANDS.md")
	if err != nil {
		t.Fatal(err)
	}
	usage, serves = map[string]string{}, map[string]bool{}
	for _, part := range regexp.MustCompile(`(?m)^##+ `).Split(string(page), -1)[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		commands = append(commands, name)
		usage[name] = strings.Split(rest, "\n")[2] // behind an empty line and the mark of the block
		serves[name] = strings.Contains(rest, "`--server URL`")
	}
	return commands, usage, serves
}

// needed matches the usage of a command that has an argument which may not be left out.
var needed = regexp.MustCompile(` (NAME|ID|APP|FILE|bash)\b`)

// missing are calls about folders, files and servers that are not there.
var missing = []struct{ what, line string }{
	{"runlot check: no project", "runlot check"},
	{"runlot types: no project", "runlot types"},
	{"runlot dev: no project", "runlot dev"},
	{"runlot pg url: no project", "runlot pg url"},
	{"runlot pg url: nothing runs", "runlot pg url shop"},
	{"runlot pg shell: nothing runs", "runlot pg shell shop"},
	{"runlot init: a project", "runlot init shop"},
	{"runlot login: no server", "runlot login http://127.0.0.1:1 --token-file token"},
	{"runlot login: no token", "runlot login http://127.0.0.1:1 --token-file none"},
	{"runlot logout: no login", "runlot logout http://127.0.0.1:1"},
	{"celld: no folder", "celld --data token --listen 127.0.0.1:0 --operator 127.0.0.1:0"},
	{"celld backup: no folder", "celld backup b.tar.gz --data none"},
	{"celld restore: no backup", "celld restore none.tar.gz --data new"},
	{"celld token create: no folder", "celld token create ann --data none"},
	{"celld token list: nothing runs", "celld token list --data shop"},
	{"celld token revoke: no folder", "celld token revoke r4n2kn9a --data none"},
}

// TestEveryCommandFailsInWords calls every command with what is wrong, and compares exit code and text: an option and
// arguments that there are not, no server, a wrong token, and names that nothing has.
func TestEveryCommandFailsInWords(t *testing.T) {
	commands, usage, serves := listed(t)
	if len(commands) < 50 {
		t.Fatalf("the page lists only %d commands", len(commands))
	}
	operator, token := startCelld(t)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Chdir(t.TempDir())
	// workerd and PostgreSQL are found from the working folder upwards.
	if err := os.Symlink(filepath.Join(startFolder, "../../node_modules"), "node_modules"); err != nil {
		t.Fatal(err)
	}
	writeProject(t, "shop")
	t.Setenv("RUNLOT_SERVER", operator)
	t.Setenv("RUNLOT_TOKEN", token)
	if code, text := runInside(t, "runlot deploy shop"); code != cli.ExitOK {
		t.Fatal(text)
	}

	said := map[string]string{}
	var mu sync.Mutex
	try := func(what string, want int, line string) {
		code, text := runInside(t, line)
		text = strings.ReplaceAll(text, operator, "SERVER")
		mu.Lock()
		defer mu.Unlock()
		if code != want || text == "" {
			t.Errorf("%s: %s exits with %d and says %q", what, line, code, text)
		}
		name, _, _ := strings.Cut(what, ":")
		line = strings.ReplaceAll(line, operator, "SERVER")
		said[name] += fmt.Sprintf("-- %s: exit code %d\n$ %s\n%s", strings.TrimPrefix(what, name+": "), code, line, text)
	}
	for _, c := range commands {
		try(c+": unknown option", cli.ExitUsage, c+" --no-such")
		if !strings.Contains(usage[c], "...") {
			try(c+": too many arguments", cli.ExitUsage, c+" a b c d e")
		}
		if needed.MatchString(usage[c]) {
			try(c+": no argument", cli.ExitUsage, c)
		}
		if _, known := attempts[c]; serves[c] != known {
			t.Errorf("the table of attempts and the page disagree on whether %s talks to a server", c)
		}
	}
	remote := slices.DeleteFunc(slices.Clone(commands), func(c string) bool { return !serves[c] || attempts[c].known == "-" })
	for _, c := range remote {
		if a := attempts[c]; a.unknown != "-" {
			try(c+": unknown name", cli.ExitFailed, strings.TrimSpace(c+" "+a.unknown))
		}
	}
	if err := os.WriteFile("token", []byte("runlot_aaaaaaaa_bbbb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, m := range missing {
		try(m.what, cli.ExitFailed, m.line)
	}
	try("runlot login: wrong token", cli.ExitFailed, "runlot login "+operator+" --token-file token")
	t.Setenv("RUNLOT_TOKEN", "runlot_aaaaaaaa_bbbb")
	for _, c := range remote {
		try(c+": wrong token", cli.ExitFailed, strings.TrimSpace(c+" "+attempts[c].known))
	}
	t.Setenv("RUNLOT_SERVER", "http://127.0.0.1:1")
	var all sync.WaitGroup
	for _, c := range remote { // each tries for a moment
		all.Go(func() { try(c+": no server", cli.ExitFailed, strings.TrimSpace(c+" "+attempts[c].known)) })
	}
	all.Wait()
	compareGolden(t, filepath.Join(startFolder, "testdata", "failures.golden"), commands, said)
}

// startFolder is the folder that tests start in.
var startFolder, _ = os.Getwd()

func compareGolden(t *testing.T, path string, commands []string, said map[string]string) {
	t.Helper()
	var b strings.Builder
	for _, c := range commands {
		fmt.Fprintf(&b, "== %s\n%s", c, said[c])
	}
	got := b.String()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("what commands say when they fail has changed; after a look, write it anew with -update (-want +got):\n%s", diff)
	}
}

// runInside runs a command line in this process, and returns its exit code and what it wrote to standard error.
func runInside(t *testing.T, line string) (code int, text string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "runlot-failures-")
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer os.RemoveAll(dir)
	stderr, err := os.Create(filepath.Join(dir, "err"))
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer stderr.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer null.Close()
	program, rest := cli.Runlot, strings.Fields(line)
	if rest[0] == "celld" {
		program = cli.Celld
	}
	code = program("v0.0.0-test", rest[1:], null, null, stderr)
	said, err := os.ReadFile(stderr.Name())
	if err != nil {
		t.Error(err)
	}
	return code, string(said)
}

// startCelld runs a celld of its own until the test ends, and returns its operator address and the first token.
func startCelld(t *testing.T) (operator, token string) {
	t.Helper()
	data := t.TempDir()
	c := exec.Command("celld", "--data", data, "--listen", "127.0.0.1:0", "--operator", "127.0.0.1:0")
	var log bytes.Buffer
	c.Stderr = &log
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		if err := c.Wait(); err != nil {
			t.Errorf("celld: %v\n%s", err, log.String())
		}
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if field := strings.Fields(lines.Text()); len(field) == 2 && field[0] == "operator" {
			text, err := os.ReadFile(filepath.Join(data, "admin-token"))
			if err != nil {
				t.Fatal(err)
			}
			return field[1], strings.TrimSpace(string(text))
		}
	}
	t.Fatalf("celld ended: %s", log.String())
	return "", ""
}

// writeProject writes the project of an app with a queue.
func writeProject(t *testing.T, name string) {
	t.Helper()
	if err := os.Mkdir(name, 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"runlot.json": `{ "name": "` + name + `", "main": "index.js", "database": "` + name + `", "compatibilityDate": "2026-11-01",
  "queues": { "producers": [{ "binding": "JOBS", "queue": "jobs" }], "consumers": [{ "queue": "jobs" }] } }`,
		"index.js": `export default { fetch: () => new Response("hi"), queue() {} };`,
	} {
		if err := os.WriteFile(filepath.Join(name, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
