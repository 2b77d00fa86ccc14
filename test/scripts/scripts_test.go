// Package scripts_test runs the two programs as a person would: each script in testdata is one story of commands, with
// what they print and how they exit.
package scripts_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/runlot/runlot/internal/cli"
)

// waitTime bounds each wait for a line of output; a first start makes a database cluster.
const waitTime = 90 * time.Second

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"runlot": func() { os.Exit(cli.Runlot("v0.0.0-test", os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
		"celld":  func() { os.Exit(cli.Celld("v0.0.0-test", os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

func TestScripts(t *testing.T) {
	// Where this process was started with hangups ignored, as under nohup, its children would ignore them too, and the
	// programs honour that. A signal that is caught here has its default in them.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			// workerd and PostgreSQL are found from the working folder upwards; a script works in a folder of its own.
			if err := os.Symlink(filepath.Join(root, "node_modules"), filepath.Join(env.WorkDir, "node_modules")); err != nil {
				return err
			}
			env.Setenv("PORT", freePort(t))
			env.Setenv("EXAMPLES", filepath.Join(root, "examples"))
			env.Setenv("OPERATOR", freePort(t))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await": await,
			"get":   get,
			"until": until,
		},
	})
}

// await FILE TEXT waits until a file that a background command writes holds a text.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await FILE TEXT")
	}
	file := ts.MkAbs(args[0])
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(waitTime)
	for {
		text, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(text), args[1]) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("%q did not appear in %s, which holds:\n%s", args[1], args[0], text)
		}
	}
}

// until COMMAND PATTERN runs a command of the shell again and again until its output matches a pattern.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: until COMMAND PATTERN")
	}
	pattern, err := regexp.Compile(args[1])
	ts.Check(err)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(waitTime)
	for {
		err := ts.Exec("sh", "-c", args[0])
		if out := ts.ReadFile("stdout"); err == nil && pattern.MatchString(out) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("%s did not print %q, but:\n%s%s", args[0], args[1], ts.ReadFile("stdout"), ts.ReadFile("stderr"))
		}
	}
}

// get PATH TEXT requests a path of the app on $PORT, and compares what it answers.
func get(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: get PATH TEXT")
	}
	response, err := http.Get("http://127.0.0.1:" + ts.Getenv("PORT") + args[0])
	ts.Check(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	ts.Check(err)
	if got := strings.TrimSpace(string(body)); got != args[1] {
		ts.Fatalf("GET %s: got %q, want %q", args[0], got, args[1])
	}
}

// freePort picks a port that nobody listens on now.
func freePort(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return fmt.Sprint(listener.Addr().(*net.TCPAddr).Port)
}
