//go:build linux

package durability_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	api "github.com/runlot/runlot/client"
	"github.com/runlot/runlot/client/subscriptions"
)

var eventKills = flag.Int("eventkills", 2, "how often TestKillsUnderSubscriptions kills celld")

// failing is an app whose messages all become dead letters, and which names two queues that nobody drains.
func failing(ctx context.Context, c *api.Client, message string) error {
	u, err := c.Upload(ctx, &api.Upload{
		App: "shop", ConfigFile: "wrangler.json", Message: message,
		Config: []byte(`{"name": "shop", "main": "a.js", "compatibility_date": "2026-04-01", "queues": {
			"producers": [{"binding": "A", "queue": "deployments"}, {"binding": "B", "queue": "deaths"}],
			"consumers": [{"queue": "bad", "max_batch_timeout": 0, "max_retries": 0, "dead_letter_queue": "dead"}]}}`),
		Modules: []api.Module{{Name: "main.mjs", Kind: "esModule", Body: []byte(`export default { queue() { throw new Error("` + message + `"); } }`)}},
	})
	if err == nil {
		_, err = c.Deploy(ctx, "shop", &api.Deploy{Version: u.Version.ID})
	}
	return err
}

// all reads every message of a queue.
func all(ctx context.Context, t *testing.T, c *api.Client, queue string) []api.Message {
	t.Helper()
	var list []api.Message
	for cursor := ""; ; {
		page, err := c.Peek(ctx, "default", queue, "", cursor, 1_000)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, page.Items...)
		if cursor = page.Next; cursor == "" {
			return list
		}
	}
}

// TestKillsUnderSubscriptions: celld is killed while it deploys and while messages become dead letters. Each deployment and each
// dead letter is told at least once, and no deployment that did not happen.
func TestKillsUnderSubscriptions(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64N(1_000_000) + 1
	}
	t.Logf("seed %d (again with -seed=%d -eventkills=%d)", *seed, *seed, *eventKills)
	random := rand.New(rand.NewPCG(*seed, 11))
	s := newServant(t)
	c := s.start()
	ctx := t.Context()
	if err := failing(ctx, c, "first"); err != nil {
		t.Fatal(err)
	}
	for _, n := range []*subscriptions.New{
		{Source: subscriptions.Source{Type: "workers.script", Script: "shop"}, Events: []string{"version.deployed"}, Database: "default", Queue: "deployments"},
		{Source: subscriptions.Source{Type: "queues.queue", Database: "default", Queue: "bad"}, Database: "default", Queue: "deaths"},
	} {
		if _, err := subscriptions.Create(ctx, c, n); err != nil {
			t.Fatal(err)
		}
	}
	for i := range *eventKills {
		after := time.Second + time.Duration(random.Int64N(int64(time.Second)))
		under, end := context.WithCancel(ctx)
		var load sync.WaitGroup
		load.Go(func() {
			for n := 0; under.Err() == nil; n++ {
				_ = failing(under, c, fmt.Sprintf("kill %d, deployment %d", i, n)) // it may die on the way
				<-time.After(100 * time.Millisecond)                               // fewer than are kept
			}
		})
		load.Go(func() {
			for under.Err() == nil {
				_, _ = c.Send(under, "default", "bad", []api.Draft{{Body: []byte("1")}, {Body: []byte("2")}})
				<-time.After(20 * time.Millisecond)
			}
		})
		<-time.After(after)
		s.kill()
		end()
		load.Wait()
		c = s.start()
	}
	happened, err := c.Deployments(ctx, "shop", 0, 1_000)
	if err != nil {
		t.Fatal(err)
	}
	expected := map[string]bool{}
	for i := range happened[:len(happened)-1] { // without the first one
		expected[happened[i].ID] = true
	}
	deadline := time.After(startTime)
	for {
		bad, err := c.Queue(ctx, "default", "bad")
		if err != nil {
			t.Fatal(err)
		}
		deployed := events(ctx, t, c, "deployments", func(e *event) []string { return []string{e.Payload.Deployment} })
		told := events(ctx, t, c, "deaths", func(e *event) (ids []string) {
			for _, m := range e.Payload.Messages {
				ids = append(ids, m.ID)
			}
			return ids
		})
		dead := all(ctx, t, c, "dead")
		missing := 0
		for i := range dead {
			if told[dead[i].ID] == 0 {
				missing++
			}
		}
		for id := range expected {
			if deployed[id] == 0 {
				missing++
			}
		}
		for id := range deployed {
			if !expected[id] {
				t.Fatalf("the deployment %s is told and did not happen", id)
			}
		}
		if missing == 0 && bad.Unsettled == 0 {
			if len(dead) == 0 || len(expected) == 0 {
				t.Fatalf("%d dead letters and %d deployments: the test proves nothing", len(dead), len(expected))
			}
			t.Logf("%d dead letters and %d deployments, all told", len(dead), len(expected))
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%d of %d dead letters and %d deployments are not told, %d messages wait", missing, len(dead), len(expected), bad.Unsettled)
		case <-time.After(pollEvery):
		}
	}
}

// event is a message about an event, as far as the test looks at it.
type event struct {
	Payload struct {
		Deployment string `json:"deploymentId"`
		Messages   []struct{ ID string }
	}
}

// events counts what a queue is told of.
func events(ctx context.Context, t *testing.T, c *api.Client, queue string, of func(*event) []string) map[string]int {
	t.Helper()
	counted := map[string]int{}
	for _, m := range all(ctx, t, c, queue) {
		var e event
		if err := json.Unmarshal(m.Body, &e); err != nil {
			t.Fatalf("%s: %v", m.Body, err)
		}
		for _, id := range of(&e) {
			counted[id]++
		}
	}
	return counted
}
