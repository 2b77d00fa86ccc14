//go:build linux

package durability_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	api "github.com/runlot/runlot/client"
	"github.com/runlot/runlot/test/port"
)

var deployKills = flag.Int("deploykills", 6, "how often TestKillsInDeployments kills celld while it deploys")

// servant is celld over one data folder.
type servant struct {
	t                *testing.T
	binary, data     string
	public, operator int
	log              bytes.Buffer
	command          *exec.Cmd
}

func newServant(t *testing.T) *servant {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "runlot-deploy-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &servant{t: t, binary: filepath.Join(dir, "celld"), data: filepath.Join(dir, "data"), public: port.Free(t), operator: port.Free(t)}
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", s.binary, "./cmd/celld")
	build.Dir = root
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, text)
	}
	if err := errors.Join(os.Chmod(dir, 0o711), os.Symlink(filepath.Join(root, "node_modules"), filepath.Join(dir, "node_modules"))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.kill()
		for _, p := range of(s.data) {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
		if t.Failed() {
			t.Logf("what celld said:\n%s", s.log.String())
		}
	})
	return s
}

// start starts the program and returns a client when it answers.
func (s *servant) start() *api.Client {
	s.t.Helper()
	s.command = exec.Command(s.binary, "--data", s.data, "--listen", "127.0.0.1:"+strconv.Itoa(s.public),
		"--operator", "127.0.0.1:"+strconv.Itoa(s.operator), "--park-after", "0")
	s.command.Dir = filepath.Dir(s.binary)
	s.command.Stderr = &s.log
	s.command.WaitDelay = time.Second
	if err := s.command.Start(); err != nil {
		s.t.Fatal(err)
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	deadline := time.After(startTime)
	for {
		if token, err := os.ReadFile(filepath.Join(s.data, "admin-token")); err == nil && len(token) > 0 {
			c, err := api.New("http://127.0.0.1:"+strconv.Itoa(s.operator), strings.TrimSpace(string(token)))
			if err != nil {
				s.t.Fatal(err)
			}
			if _, err := c.Whoami(s.t.Context()); err == nil {
				return c
			}
		}
		select {
		case <-tick.C:
		case <-deadline:
			s.t.Fatalf("celld does not answer:\n%s", s.log.String())
		}
	}
}

func (s *servant) kill() {
	if s.command == nil {
		return
	}
	_ = s.command.Process.Kill()
	_ = s.command.Wait()
	s.command = nil
}

// word is what the app answers.
func (s *servant) word() string {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://127.0.0.1:"+strconv.Itoa(s.public), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Host = "shop.localhost"
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: startTime}).Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// deployment is an attempt to bring a word to the app.
type deployment struct {
	word string
	err  error
}

func deploy(ctx context.Context, c *api.Client, word string) deployment {
	u, err := c.Upload(ctx, &api.Upload{
		App: "shop", ConfigFile: "runlot.json", Config: []byte(`{"name": "shop", "main": "a.js", "database": "shop", "compatibilityDate": "2026-11-01",
			"queues": {"producers": [{"binding": "JOBS", "queue": "jobs-` + word + `"}], "consumers": [{"queue": "jobs-` + word + `"}]}}`),
		Message: word,
		Modules: []api.Module{{Name: "main.mjs", Kind: "esModule", Body: []byte(
			`export default { async fetch(r, env) { await env.JOBS.send(1); return new Response("` + word + `"); }, queue() {} };`)}},
	})
	if err == nil {
		_, err = c.Deploy(ctx, "shop", &api.Deploy{Version: u.Version.ID, Message: word})
	}
	return deployment{word, err}
}

// TestKillsInDeployments: celld is killed at random moments of deployments. After each restart the app is wholly on one
// version, code and queues; it is the one of the last deployment that was acknowledged or one that was tried since.
func TestKillsInDeployments(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64N(1_000_000) + 1
	}
	t.Logf("seed %d (again with -seed=%d -deploykills=%d)", *seed, *seed, *deployKills)
	random := rand.New(rand.NewPCG(*seed, 7))
	s := newServant(t)
	c := s.start()
	began := time.Now()
	if first := deploy(t.Context(), c, "w0"); first.err != nil {
		t.Fatal(first.err)
	}
	// The kills fall into the time that a deployment takes here, and little behind it.
	latest := time.Since(began) * 6 / 5
	acknowledged, completed := "w0", 0
	for i := range *deployKills {
		word := fmt.Sprint("w", i+1)
		after := time.Duration(random.Int64N(int64(latest)))
		var tried deployment
		var trying sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		trying.Go(func() { tried = deploy(ctx, c, word) })
		<-time.After(after)
		s.kill()
		cancel()
		trying.Wait()
		c = s.start()
		live := s.word()
		switch {
		case live == word:
		case tried.err == nil:
			t.Errorf("the deployment of %s was acknowledged, and the app is on %s", word, live)
		case live != acknowledged:
			t.Errorf("the app is on %s; %s was acknowledged and %s tried", live, acknowledged, word)
		}
		if live == word {
			completed++
		}
		acknowledged = live
		a, err := c.App(t.Context(), "shop")
		if err != nil {
			t.Fatal(err)
		}
		versions, err := c.Versions(t.Context(), "shop", 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		for j := range versions {
			v := &versions[j]
			if v.Live != (v.Message == live) {
				t.Errorf("version %d (%s) is live: %t, and the app answers %s", v.Number, v.Message, v.Live, live)
			}
		}
		if len(a.Consumers) != 1 || a.Consumers[0].Queue != "jobs-"+live {
			t.Errorf("the app answers %s and consumes %+v", live, a.Consumers)
		}
	}
	t.Logf("%d of %d deployments were complete at the kill", completed, *deployKills)
}
