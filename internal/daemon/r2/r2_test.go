package r2

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/s3/s3test"
	"github.com/runlot/runlot/internal/core/queue"
	core "github.com/runlot/runlot/internal/core/r2"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(cleaning{m}) }

type cleaning struct{ *testing.M }

func (c cleaning) Run() int {
	defer s3test.Remove()
	return c.M.Run()
}

const patience = time.Minute

// told waits for a message and returns its action and key.
func told(t *testing.T, messages <-chan queue.Draft) string {
	t.Helper()
	select {
	case draft := <-messages:
		var m struct {
			Account, Action, Bucket, EventTime string
			Object                             struct {
				Key, ETag string
				Size      *int64
			}
		}
		if err := json.Unmarshal(draft.Body, &m); err != nil || m.Account == "" || m.Bucket != "files" || m.EventTime == "" {
			t.Fatalf("%s: %v", draft.Body, err)
		}
		return m.Action + " " + m.Object.Key
	case <-time.After(patience):
		t.Fatal("nothing is told")
		return ""
	}
}

func put(t *testing.T, b *Buckets, key string) {
	t.Helper()
	body, err := b.Receive("files", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Put(t.Context(), "files", &core.Put{Key: key, Body: body}); err != nil {
		t.Fatal(err)
	}
}

// TestEventsAreTold: to the queue of a rule, when that takes them again, and after a restart; a queue that takes nothing holds
// up no other.
func TestEventsAreTold(t *testing.T) {
	state := t.TempDir()
	rules := OpenRules(state, slog.New(slog.DiscardHandler))
	defer rules.Close()
	for _, name := range []string{"images", "gone"} {
		if _, err := rules.Create(t.Context(), "files", Rule{Database: "default", Queue: name, Prefix: "in/"}, []string{"object-create", "object-delete"}); err != nil {
			t.Fatal(err)
		}
	}
	messages, refused := make(chan queue.Draft, 10), make(chan struct{}, 100)
	open := func(gone bool) *Buckets {
		return New(state, nil, func(_ context.Context, database, name string, drafts []queue.Draft) error {
			if database != "default" || name == "gone" && gone {
				refused <- struct{}{}
				return errors.New("there is no such queue")
			}
			for _, d := range drafts {
				messages <- d
			}
			return nil
		}, slog.New(slog.DiscardHandler))
	}
	b := open(true)
	put(t, b, "in/a")
	put(t, b, "out/a")
	if got := told(t, messages); got != "PutObject in/a" {
		t.Error(got)
	}
	<-refused
	if err := b.Delete(t.Context(), "files", []string{"in/a", "out/a"}); err != nil {
		t.Fatal(err)
	}
	if got := told(t, messages); got != "DeleteObject in/a" {
		t.Error(got)
	}
	b.Close()
	b.Close()
	// What was for the other queue is there still, in its order.
	b = open(false)
	b.Tell()
	for _, want := range []string{"PutObject in/a", "DeleteObject in/a"} {
		if got := told(t, messages); got != want {
			t.Error(got)
		}
	}
	b.Close()
	if n, err := rules.Delete(t.Context(), "files", "images", ""); n != 1 || err != nil {
		t.Error(n, err)
	}
	if all, err := rules.List(t.Context(), "files"); len(all) != 1 || err != nil {
		t.Error(all, err)
	}
}

// TestAQueueThatComesBack is told what waited for it, without a further event.
func TestAQueueThatComesBack(t *testing.T) {
	state := t.TempDir()
	rules := OpenRules(state, slog.New(slog.DiscardHandler))
	defer rules.Close()
	if _, err := rules.Create(t.Context(), "files", Rule{Database: "default", Queue: "q"}, EventTypes); err != nil {
		t.Fatal(err)
	}
	messages, tries := make(chan queue.Draft, 10), 0
	b := New(state, nil, func(_ context.Context, _, _ string, drafts []queue.Draft) error {
		if tries++; tries < 3 {
			return errors.New("the database does not answer")
		}
		messages <- drafts[0]
		return nil
	}, slog.New(slog.DiscardHandler))
	defer b.Close()
	put(t, b, "a")
	if got := told(t, messages); got != "PutObject a" {
		t.Error(got)
	}
}

func TestRulesThatAreRefused(t *testing.T) {
	rules := OpenRules(t.TempDir(), slog.New(slog.DiscardHandler))
	defer rules.Close()
	good := Rule{Database: "default", Queue: "q"}
	for name, create := range map[string]func() (*Rule, error){
		"a bucket": func() (*Rule, error) { return rules.Create(t.Context(), "A", good, EventTypes) },
		"a queue": func() (*Rule, error) {
			return rules.Create(t.Context(), "files", Rule{Database: "default"}, EventTypes)
		},
		"an event": func() (*Rule, error) {
			return rules.Create(t.Context(), "files", good, []string{"object-read"})
		},
		"no event": func() (*Rule, error) { return rules.Create(t.Context(), "files", good, nil) },
	} {
		if _, err := create(); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	for range queue.R2Rules {
		if _, err := rules.Create(t.Context(), "files", good, EventTypes); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := rules.Create(t.Context(), "files", good, EventTypes); err == nil {
		t.Error("there is no end of rules")
	}
}

// TestEventsFromAStore: objects in an S3 store are told like those of the folder, also those of a process that died before it
// could note that they are there.
func TestEventsFromAStore(t *testing.T) {
	state := t.TempDir()
	t.Setenv("AWS_ACCESS_KEY_ID", s3test.Credentials.ID)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3test.Credentials.Secret)
	at, err := ReadStore("s3://"+s3test.Bucket+"?endpoint=http://"+s3test.Serve(t)+"&region="+s3test.Region, "")
	if err != nil {
		t.Fatal(err)
	}
	messages := make(chan queue.Draft, 10)
	open := func() *Buckets {
		return New(state, at, func(_ context.Context, _, _ string, drafts []queue.Draft) error {
			for i := range drafts {
				messages <- drafts[i]
			}
			return nil
		}, slog.New(slog.DiscardHandler))
	}
	b := open()
	if err := b.Check(t.Context(), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if err := b.AddRule(t.Context(), "files", &Rule{Database: "default", Queue: "q", Actions: []string{core.PutObject, core.DeleteObject}}); err != nil {
		t.Fatal(err)
	}
	put(t, b, "a")
	if got := told(t, messages); got != "PutObject a" {
		t.Error(got)
	}
	if err := b.Drop(t.Context(), "files"); err == nil {
		t.Error("a bucket with an object is deleted")
	}
	// What a process leaves that dies between the deletion and its event.
	o, err := b.Open(t.Context(), "files", "a")
	if err != nil || o == nil {
		t.Fatal(o, err)
	}
	if err := b.files.Intend(t.Context(), "files", []core.Intent{{Action: core.DeleteObject, Key: "gone", Mark: o.Info().Version}}); err != nil {
		t.Fatal(err)
	}
	o.Close()
	b.Close()
	b = open()
	defer b.Close()
	b.Tell()
	if got := told(t, messages); got != "DeleteObject gone" {
		t.Error(got)
	}
	if names, err := b.Names(t.Context()); err != nil || len(names) != 1 {
		t.Error(names, err)
	}
}
