// Package scripts_test runs the two programs as a person would: each script in testdata is one story of commands, with
// what they print and how they exit.
package scripts_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/runlot/runlot/internal/adapter/smtp/smtptest"
	"github.com/runlot/runlot/internal/cli"
	"github.com/runlot/runlot/test/port"
)

// waitTime bounds each wait for a line of output; a first start makes a database cluster.
const waitTime = 4 * time.Minute

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
	t.Cleanup(func() { signal.Stop(hangups) }) // scripts run when this function has returned
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
			env.Setenv("PORT", strconv.Itoa(port.Free(t)))
			env.Setenv("EXAMPLES", filepath.Join(root, "examples"))
			env.Setenv("OPERATOR", strconv.Itoa(port.Free(t)))
			env.Setenv("SMTP", strconv.Itoa(port.Free(t)))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await":   await,
			"get":     get,
			"mailbox": mailbox,
			"until":   until,
		},
	})
}

// await WHERE TEXT waits until a text is in a file that a background command writes, or in the answer to a request: the
// path of an app on $PORT, with http://HOST/ before it where apps are known by their hosts.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await FILE|PATH|http://HOST/PATH TEXT")
	}
	look := func() string {
		text, _ := os.ReadFile(ts.MkAbs(args[0]))
		return string(text)
	}
	address, named := strings.CutPrefix(args[0], "http://")
	if named || strings.HasPrefix(address, "/") {
		host, path, _ := strings.Cut(address, "/")
		look = func() string {
			text, err := request(ts, host, "/"+path)
			if err != nil {
				return err.Error()
			}
			return text
		}
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(waitTime)
	for {
		text := look()
		if strings.Contains(text, args[1]) {
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

// mailbox FILE runs a mail server on $SMTP until the script ends, which appends the mails that come to a file: receivers,
// subject and text.
func mailbox(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: mailbox FILE")
	}
	port, err := strconv.Atoi(ts.Getenv("SMTP"))
	ts.Check(err)
	server, err := smtptest.Start(smtptest.Options{}, port)
	ts.Check(err)
	end, done := make(chan struct{}), make(chan struct{})
	file := ts.MkAbs(args[0])
	go func() {
		defer close(done)
		var all strings.Builder
		for n := 1; ; n++ {
			mails := server.Wait(n, end)
			if len(mails) < n {
				return
			}
			subject, text, err := mails[n-1].Read()
			fmt.Fprintf(&all, "To: %s\nSubject: %s\n\n%s%v\n", mails[n-1].To, subject, text, err)
			_ = os.WriteFile(file, []byte(all.String()), 0o600)
		}
	}()
	ts.Defer(func() {
		close(end)
		<-done
		server.Close()
	})
}

// get PATH TEXT requests a path of the app on $PORT, and compares what it answers.
func get(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: get PATH TEXT")
	}
	got, err := request(ts, "", args[0])
	ts.Check(err)
	if got != args[1] {
		ts.Fatalf("GET %s: got %q, want %q", args[0], got, args[1])
	}
}

// request gets a path from $PORT, for a host or for none in particular.
func request(ts *testscript.TestScript, host, path string) (string, error) {
	req, err := http.NewRequest(http.MethodGet, "http://127.0.0.1:"+ts.Getenv("PORT")+path, http.NoBody)
	ts.Check(err)
	req.Host = host
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return strings.TrimSpace(string(body)), err
}
