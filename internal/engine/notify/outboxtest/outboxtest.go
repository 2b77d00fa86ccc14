// Package outboxtest is the contract of an outbox, as tests that every outbox runs.
package outboxtest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/notify"
)

const (
	mail = "mail ann@example.com"
	hook = "webhook hooks.example.com"
	// lease is longer than a test.
	lease = time.Hour
	keep  = 100
)

var at = time.Date(2026, 11, 30, 23, 59, 0, 0, time.UTC)

func failed(queueName string, at time.Time) *notify.Notice {
	return &notify.Notice{
		Rule: notify.QueueFailed, At: at, Database: "shop", Queue: queueName, App: "shop", Version: "v1", VersionNumber: 7, Since: at.Add(-time.Minute), Count: 3,
		Outcome: queue.Failed, Error: &notify.Exception{Name: "TypeError", Message: "x <is> \"not\"\n\u2028 a function", Location: "src/a.ts:3:7"},
	}
}

// Run runs the contract on outboxes that new makes, each of them empty. Every call of open opens the same one again, as
// another node would.
func Run(t *testing.T, fresh func(t *testing.T) (open func() notify.Outbox)) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, open func() notify.Outbox)
	}{
		{"a notice comes back as it was", comesBack},
		{"one of a rule, a subject and a day", onceADay},
		{"each way on its own", ways},
		{"what is claimed is nobody else's", claims},
		{"a lease that has ended", leaseEnds},
		{"a late result changes nothing", lateResult},
		{"retries are due later", retries},
		{"two senders share the work", senders},
		{"the oldest are forgotten", forgets},
		{"pages", pages},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, fresh(t)) })
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func add(t *testing.T, o notify.Outbox, n *notify.Notice, ways ...string) bool {
	t.Helper()
	added, err := o.Add(t.Context(), n, ways, keep)
	must(t, err)
	return added
}

func claim(t *testing.T, o notify.Outbox, ways ...string) *notify.Delivery {
	t.Helper()
	d, _, err := o.Claim(t.Context(), ways, lease)
	must(t, err)
	return d
}

// status is what the outbox says of a way of the newest notice.
func status(t *testing.T, o notify.Outbox, way string) notify.Status {
	t.Helper()
	list, err := o.Notices(t.Context(), 0, 1)
	must(t, err)
	for _, n := range list {
		for _, s := range n.Ways {
			if s.Way == way {
				return s
			}
		}
	}
	t.Fatalf("nothing of %s in %+v", way, list)
	return notify.Status{}
}

func comesBack(t *testing.T, open func() notify.Outbox) {
	o := open()
	n := failed("jobs", at)
	if !add(t, o, n, mail) {
		t.Fatal("not added")
	}
	want := fmt.Sprintf("%+v %+v", *n.Error, notify.Describe(n))
	d := claim(t, open(), mail)
	if d == nil {
		t.Fatal("nothing is due")
	}
	if got := fmt.Sprintf("%+v %+v", *d.Notice.Error, notify.Describe(d.Notice)); got != want || d.Way != mail || d.Attempt != 1 || d.ID == 0 || d.Age < 0 {
		t.Errorf("%+v is\n%s, not\n%s", d, got, want)
	}
	list, err := o.Notices(t.Context(), 0, 10)
	must(t, err)
	if len(list) != 1 || list[0].ID != d.ID || fmt.Sprintf("%+v %+v", *list[0].Notice.Error, notify.Describe(list[0].Notice)) != want {
		t.Errorf("list %+v", list)
	}
}

func onceADay(t *testing.T, open func() notify.Outbox) {
	for _, step := range []struct {
		notice *notify.Notice
		want   bool
	}{
		{failed("jobs", at), true},
		{failed("jobs", at), false},
		{failed("jobs", at.Add(59*time.Second)), false},
		{failed("jobs", at.Add(-23*time.Hour-59*time.Minute)), false},
		{failed("other", at), true},
		{failed("jobs", at.Add(time.Minute)), true},
		{&notify.Notice{Rule: notify.Recovered, At: at, Database: "shop", Queue: "jobs"}, true},
		{failed("jobs", at.Add(time.Minute).In(time.FixedZone("west", -9*3600))), false},
	} {
		if got := add(t, open(), step.notice, mail); got != step.want {
			t.Errorf("%s of %s at %v: added %v", step.notice.Rule, step.notice.Queue, step.notice.At, got)
		}
	}
}

func ways(t *testing.T, open func() notify.Outbox) {
	o := open()
	add(t, o, failed("jobs", at), mail, hook)
	if d := claim(t, o, "mail nobody"); d != nil {
		t.Errorf("another way got %+v", d)
	}
	d := claim(t, o, hook)
	if d == nil || d.Way != hook {
		t.Fatalf("claimed %+v", d)
	}
	must(t, o.Failed(t.Context(), d, "gone"))
	if s := status(t, o, hook); s.State != notify.Failed || s.Problem != "gone" || !s.Next.IsZero() {
		t.Errorf("status %+v", s)
	}
	if s := status(t, o, mail); s.State != notify.Waiting || s.Attempt != 0 || s.Next.IsZero() {
		t.Errorf("status %+v", s)
	}
	d = claim(t, o, mail, hook)
	must(t, o.Sent(t.Context(), d))
	if s := status(t, o, mail); s.State != notify.Sent || s.Sent.IsZero() || s.Problem != "" {
		t.Errorf("status %+v", s)
	}
	if d := claim(t, o, mail, hook); d != nil {
		t.Errorf("what is settled is due: %+v", d)
	}
}

func claims(t *testing.T, open func() notify.Outbox) {
	o := open()
	add(t, o, failed("jobs", at), mail)
	if claim(t, o, mail) == nil {
		t.Fatal("nothing is due")
	}
	d, next, err := open().Claim(t.Context(), []string{mail}, lease)
	if d != nil || err != nil || next <= 0 || next > lease {
		t.Errorf("claimed %+v, next in %v, error %v", d, next, err)
	}
}

func leaseEnds(t *testing.T, open func() notify.Outbox) {
	o := open()
	add(t, o, failed("jobs", at), mail)
	if d, _, err := o.Claim(t.Context(), []string{mail}, 0); d == nil || err != nil {
		t.Fatalf("claimed %+v, error %v", d, err)
	}
	if d := claim(t, open(), mail); d == nil || d.Attempt != 2 {
		t.Errorf("claimed %+v", d)
	}
}

func lateResult(t *testing.T, open func() notify.Outbox) {
	o := open()
	add(t, o, failed("jobs", at), mail)
	late, _, err := o.Claim(t.Context(), []string{mail}, 0)
	must(t, err)
	now := claim(t, open(), mail)
	must(t, o.Failed(t.Context(), late, "late"))
	must(t, o.Retry(t.Context(), late, 0, "late"))
	if s := status(t, o, mail); s.State != notify.Waiting || s.Problem != "" {
		t.Errorf("status %+v", s)
	}
	must(t, o.Sent(t.Context(), now))
	must(t, o.Retry(t.Context(), now, 0, "again"))
	if s := status(t, o, mail); s.State != notify.Sent {
		t.Errorf("status %+v", s)
	}
}

func retries(t *testing.T, open func() notify.Outbox) {
	o := open()
	add(t, o, failed("jobs", at), mail)
	must(t, o.Retry(t.Context(), claim(t, o, mail), time.Hour, "try later"))
	d, next, err := o.Claim(t.Context(), []string{mail}, lease)
	if d != nil || err != nil || next < 30*time.Minute || next > time.Hour {
		t.Errorf("claimed %+v, next in %v, error %v", d, next, err)
	}
	if s := status(t, o, mail); s.State != notify.Waiting || s.Problem != "try later" || s.Attempt != 1 {
		t.Errorf("status %+v", s)
	}
}

// senders claim what there is at the same time: each delivery goes to one of them.
func senders(t *testing.T, open func() notify.Outbox) {
	const notices, nodes = 20, 4
	first := open()
	for n := range notices {
		add(t, first, failed(fmt.Sprint("jobs", n), at), mail, hook)
	}
	var mu sync.Mutex
	got := map[string]int{}
	var all sync.WaitGroup
	for range nodes {
		o := open()
		all.Go(func() {
			for {
				d, _, err := o.Claim(context.Background(), []string{mail, hook}, lease)
				if err != nil {
					t.Error(err)
					return
				}
				if d == nil {
					return
				}
				mu.Lock()
				got[fmt.Sprint(d.ID, d.Way)]++
				mu.Unlock()
				if err := o.Sent(context.Background(), d); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if len(got) != 2*notices {
		t.Errorf("%d deliveries, not %d", len(got), 2*notices)
	}
	for id, n := range got {
		if n != 1 {
			t.Errorf("%s was claimed %d times", id, n)
		}
	}
}

func forgets(t *testing.T, open func() notify.Outbox) {
	o := open()
	for n := range 5 {
		if _, err := o.Add(t.Context(), failed(fmt.Sprint("jobs", n), at), []string{mail}, 3); err != nil {
			t.Fatal(err)
		}
	}
	list, err := o.Notices(t.Context(), 0, 10)
	must(t, err)
	if len(list) != 3 || list[0].Notice.Queue != "jobs4" || list[2].Notice.Queue != "jobs2" {
		t.Errorf("%d notices are left: %+v", len(list), list)
	}
}

func pages(t *testing.T, open func() notify.Outbox) {
	o := open()
	for n := range 5 {
		add(t, o, failed(fmt.Sprint("jobs", n), at), mail)
	}
	var names []string
	for before := int64(0); ; {
		list, err := o.Notices(t.Context(), before, 2)
		must(t, err)
		if len(list) == 0 {
			break
		}
		for _, n := range list {
			names = append(names, n.Notice.Queue)
		}
		before = list[len(list)-1].ID
	}
	if got := strings.Join(names, " "); got != "jobs4 jobs3 jobs2 jobs1 jobs0" {
		t.Errorf("pages: %s", got)
	}
}
