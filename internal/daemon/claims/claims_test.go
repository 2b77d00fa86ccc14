package claims_test

import (
	"strings"
	"testing"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/claims"
)

// one is an app.
type one string

func (o one) Name() string { return string(o) }

func manifest(name, database, consumed, dead, produced string) *app.Manifest {
	m := &app.Manifest{Name: name, Database: database}
	if consumed != "" {
		m.Consumers = []queue.Consumer{{Queue: consumed, DeadLetterQueue: dead}}
	}
	if produced != "" {
		m.Producers = []app.Producer{{Binding: "OUT", Queue: produced}}
	}
	return m
}

func refused(t *testing.T, err error, kind fault.Kind, texts ...string) {
	t.Helper()
	f := fault.From(err)
	if f == nil || f.Kind != kind {
		t.Fatalf("%v, want a fault of kind %s", err, kind)
	}
	for _, text := range texts {
		if !strings.Contains(f.Message, text) {
			t.Errorf("%q does not say %q", f.Message, text)
		}
	}
}

// TestTheUsedStay: a queue that a live version names, or one that is being made live, is not deleted, and who uses it is named;
// while one is being deleted, no version with it becomes live.
func TestTheUsedStay(t *testing.T) {
	c := claims.New[one]()
	live := []*app.Manifest{manifest("shop", "db", "jobs", "dead", "mails"), manifest("other", "elsewhere", "free", "", "")}
	running := func() []*app.Manifest { return live }
	for name, how := range map[string]string{
		"jobs": "shop consumes it", "dead": "shop leaves the dead letters of jobs there", "mails": "shop sends to it as env.OUT",
	} {
		_, err := c.Remove("db", name, running)
		refused(t, err, fault.Conflict, name, how)
	}
	done, err := c.Remove("db", "free", running)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Remove("db", "free", running)
	refused(t, err, fault.Conflict, "already")
	refused(t, c.Claim("late", manifest("late", "db", "", "", "free")), fault.Unavailable, "free")
	if err := c.Claim("other", live[1]); err != nil {
		t.Errorf("the queue of that name in another database: %v", err)
	}
	done()
	if err := c.Claim("late", manifest("late", "db", "free", "", "")); err != nil {
		t.Fatal(err)
	}
	_, err = c.Remove("db", "free", running)
	refused(t, err, fault.Conflict, "late consumes it")
	refused(t, c.Claim("thief", manifest("thief", "db", "free", "", "")), fault.Conflict, "thief cannot consume", "late consumes it already")
	c.Release("late", nil)
	if done, err = c.Remove("db", "free", running); err != nil {
		t.Fatal(err)
	}
	done()
}
