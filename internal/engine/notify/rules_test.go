package notify_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/notify"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func batch(queueName string, at time.Time, outcome queue.Outcome) *notify.Batch {
	return &notify.Batch{
		Database: "shop", Queue: queueName, DeadLetterQueue: "dead", App: "shop", Version: "v1", Start: at.Add(-time.Second), End: at, Outcome: outcome,
		Error: &notify.Exception{Name: "Error", Message: "no", Location: "src/a.ts:3:7"},
	}
}

func all() *notify.Rules {
	return notify.NewRules(notify.Settings{On: notify.AllRules, Old: time.Hour})
}

// titles are what notices say.
func titles(notices []*notify.Notice) []string {
	list := make([]string, 0, len(notices))
	for _, n := range notices {
		list = append(list, notify.Describe(n).Title)
	}
	return list
}

func TestThreeInARow(t *testing.T) {
	ok, failed, errored, timeout, lost := queue.OK, queue.Failed, queue.Errored, queue.TimedOut, queue.Lost
	for _, test := range []struct {
		outcomes []queue.Outcome
		want     string
	}{
		{[]queue.Outcome{failed, failed}, ""},
		{[]queue.Outcome{failed, failed, failed}, "jobs: three batches failed in a row"},
		{[]queue.Outcome{failed, errored, failed}, "jobs: three batches failed in a row"},
		{[]queue.Outcome{errored, errored, errored}, "jobs: three batches failed in a row"},
		{[]queue.Outcome{failed, failed, failed, failed, failed}, "jobs: three batches failed in a row"},
		{[]queue.Outcome{failed, failed, ok, failed, failed}, ""},
		{[]queue.Outcome{failed, timeout, failed, lost, failed}, "jobs: three batches failed in a row"},
		{[]queue.Outcome{timeout, timeout, timeout, lost, lost, lost}, ""},
		{[]queue.Outcome{failed, failed, failed, ok}, "jobs: three batches failed in a row|jobs is well again"},
		{[]queue.Outcome{failed, failed, ok, ok}, ""},
		{[]queue.Outcome{failed, failed, failed, ok, failed, failed, failed, ok}, "jobs: three batches failed in a row|jobs is well again"},
	} {
		r := all()
		got := make([]string, 0, 2)
		for i, outcome := range test.outcomes {
			got = append(got, titles(r.Batch(batch("jobs", noon.Add(time.Duration(i)*time.Second), outcome)))...)
		}
		if strings.Join(got, "|") != test.want {
			t.Errorf("%v: %q, want %q", test.outcomes, got, test.want)
		}
	}
}

func TestWhatAFailureTells(t *testing.T) {
	r := all()
	r.Batch(batch("jobs", noon, queue.Failed))
	r.Batch(batch("other", noon, queue.Failed))
	r.Batch(batch("jobs", noon.Add(time.Minute), queue.Failed))
	last := batch("jobs", noon.Add(2*time.Minute), queue.Failed)
	last.Error.Message = strings.Repeat("ä", queue.NotifyText) + "\x00"
	got := r.Batch(last)
	want := &notify.Notice{
		Rule: notify.QueueFailed, At: last.End, Database: "shop", Queue: "jobs", DeadLetterQueue: "dead", App: "shop", Version: "v1",
		Since: noon.Add(-time.Second), Count: 3, Outcome: queue.Failed,
		Error: &notify.Exception{Name: "Error", Message: strings.Repeat("ä", queue.NotifyText/2) + "…", Location: "src/a.ts:3:7"},
	}
	if len(got) != 1 {
		t.Fatalf("%d notices", len(got))
	}
	if d := cmp.Diff(want, got[0]); d != "" {
		t.Error(d)
	}
}

func TestANewDayTellsAnew(t *testing.T) {
	r := all()
	count := 0
	for hour := range 48 {
		count += len(r.Batch(batch("jobs", noon.Add(time.Duration(hour)*time.Hour), queue.Failed)))
	}
	if count != 3 { // the two hours of the row are on the first of three days
		t.Errorf("told %d times in 48 hours", count)
	}
}

func TestWhatIsOff(t *testing.T) {
	r := notify.NewRules(notify.Settings{On: []notify.Rule{notify.Recovered}})
	for range 5 {
		b := batch("jobs", noon, queue.Failed)
		b.Dead = 1
		if got := r.Batch(b); got != nil {
			t.Errorf("told %v", titles(got))
		}
	}
	for name, got := range map[string][]*notify.Notice{
		"well again, of what nobody was told": r.Batch(batch("jobs", noon, queue.OK)),
		"a run":                               r.Run(&notify.Run{App: "a", Cron: "* * * * *", End: noon, Outcome: queue.Failed}),
		"operations":                          r.Operations(&notify.Operations{Database: "shop", At: noon, Percent: 90}),
		"age":                                 r.Age(&notify.Age{Database: "shop", Queue: "jobs", At: noon, Oldest: noon.Add(-1000 * time.Hour)}),
	} {
		if got != nil {
			t.Errorf("%s: told %v", name, titles(got))
		}
	}
}

func TestDeadLetters(t *testing.T) {
	r := all()
	b := batch("jobs", noon, queue.Failed)
	b.Dead = 2
	if got := titles(r.Batch(b)); !slices.Equal(got, []string{"jobs: two messages became dead letters"}) {
		t.Errorf("told %v", got)
	}
	if got := titles(r.Batch(b)); len(got) > 0 {
		t.Errorf("told again: %v", got)
	}
}

func TestCrons(t *testing.T) {
	run := func(attempt int, outcome queue.Outcome, again bool) *notify.Run {
		r := &notify.Run{App: "shop", Cron: "0 * * * *", Occurrence: noon, End: noon.Add(time.Duration(attempt) * time.Minute), Outcome: outcome, Attempt: attempt}
		if again {
			r.Retry = r.End.Add(time.Minute)
		}
		return r
	}
	for name, test := range map[string]struct {
		runs []*notify.Run
		want string
	}{
		"two that are tried again":   {[]*notify.Run{run(1, queue.Failed, true), run(2, queue.TimedOut, true)}, ""},
		"three":                      {[]*notify.Run{run(1, queue.Failed, true), run(2, queue.Failed, true), run(3, queue.Failed, true)}, "shop: the cron 0 * * * * failed three times"},
		"the third of another node":  {[]*notify.Run{run(3, queue.Errored, true), run(5, queue.Errored, true)}, "shop: the cron 0 * * * * failed three times"},
		"given up":                   {[]*notify.Run{run(1, queue.Failed, false)}, "shop: the cron 0 * * * * failed"},
		"its process dies":           {[]*notify.Run{run(3, queue.Lost, true)}, "shop: the cron 0 * * * * failed three times"},
		"well again":                 {[]*notify.Run{run(1, queue.Failed, false), run(1, queue.OK, false)}, "shop: the cron 0 * * * * failed|shop: the cron 0 * * * * is well again"},
		"well":                       {[]*notify.Run{run(1, queue.Failed, true), run(2, queue.OK, false)}, ""},
		"found too late":             {[]*notify.Run{run(0, "missed", false)}, ""},
		"a second occurrence, alike": {[]*notify.Run{run(1, queue.Failed, false), run(1, queue.Failed, false)}, "shop: the cron 0 * * * * failed"},
	} {
		r := all()
		got := make([]string, 0, 2)
		for _, one := range test.runs {
			got = append(got, titles(r.Run(one))...)
		}
		if strings.Join(got, "|") != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestOperationsAndAges(t *testing.T) {
	r := all()
	o := &notify.Operations{Database: "shop", At: noon, Percent: 90, Used: 900, Cap: 1000, Reset: noon.Add(12 * time.Hour)}
	if got := titles(r.Operations(o)); !slices.Equal(got, []string{"shop: 90 % of the day's queue operations are used"}) {
		t.Errorf("told %v", got)
	}
	if got := r.Operations(o); got != nil {
		t.Errorf("told again: %v", titles(got))
	}
	o.Percent = 100
	if got := titles(r.Operations(o)); !slices.Equal(got, []string{"shop: the day's queue operations are used up"}) {
		t.Errorf("told %v", got)
	}
	a := &notify.Age{Database: "shop", Queue: "jobs", At: noon, Oldest: noon.Add(-time.Hour)}
	if got := r.Age(a); got != nil {
		t.Errorf("told %v at the threshold", titles(got))
	}
	a.Oldest = noon.Add(-61 * time.Minute)
	if got := titles(r.Age(a)); !slices.Equal(got, []string{"jobs: the oldest message has waited 1 h 1 min"}) {
		t.Errorf("told %v", got)
	}
	if got := r.Age(a); got != nil {
		t.Errorf("told again: %v", titles(got))
	}
	if got := r.Age(&notify.Age{Database: "shop", Queue: "empty", At: noon}); got != nil {
		t.Errorf("told of an empty queue: %v", titles(got))
	}
}

// TestOnceAQueueADay holds the rules of several nodes, each with the outbox before it, to a model that looks at the whole
// history: over random outcomes of interleaved queues, days, restarts, and queues that move to another node.
func TestOnceAQueueADay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := []*notify.Rules{all(), all()}
		owner := map[string]int{"a": 0, "b": 0} // by database
		told, want := map[string]int{}, map[string]int{}
		rows := map[string]int{}
		at := noon
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			at = at.Add(time.Duration(rapid.IntRange(1, 200).Draw(t, "minutes")) * time.Minute)
			database := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "database")
			switch rapid.IntRange(0, 20).Draw(t, "what") {
			case 0: // a restart of its node, which owns the other one too perhaps
				node := owner[database]
				nodes[node] = all()
				maps.DeleteFunc(rows, func(key string, _ int) bool { return owner[key[:1]] == node })
				continue
			case 1: // another node takes over
				nodes[owner[database]].Left(database)
				owner[database] = 1 - owner[database]
				maps.DeleteFunc(rows, func(key string, _ int) bool { return key[:1] == database })
				continue
			}
			b := batch(rapid.SampledFrom([]string{"jobs", "mail"}).Draw(t, "queue"), at,
				rapid.SampledFrom([]queue.Outcome{queue.OK, queue.Failed, queue.Failed, queue.Failed, queue.Errored, queue.TimedOut, queue.Lost}).Draw(t, "outcome"))
			b.Database = database
			key := database + "/" + b.Queue
			switch b.Outcome {
			case queue.OK:
				rows[key] = 0
			case queue.Failed, queue.Errored:
				rows[key]++
				if rows[key] >= 3 {
					want[key+at.Format(" 2006-01-02")] = 1
				}
			}
			for _, n := range nodes[owner[database]].Batch(b) {
				if n.Rule != notify.QueueFailed {
					continue
				}
				if n.Count != rows[key] {
					t.Fatalf("a notice of %d failures after %d", n.Count, rows[key])
				}
				// The outbox lets the first one through.
				told[fmt.Sprintf("%s/%s %s", n.Database, n.Queue, n.Day().Format(time.DateOnly))] = 1
			}
		}
		if d := cmp.Diff(want, told); d != "" {
			t.Fatal(d)
		}
	})
}
