package conformance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// cronRun is one run of a scheduled handler.
type cronRun struct {
	Cron          string
	At, Start     time.Time
	Attempt       int
	Outcome       queue.Outcome
	Error, Reason string
	// Retry is the wait before the next try; 0 when there is none.
	Retry  time.Duration
	Manual bool
	// Seen is what the handler logged of what it was given.
	Seen *seenRun
}

// seenRun is what a handler logs.
type seenRun struct {
	Cron                          string
	ScheduledTime                 int64
	Type, Env, NoRetry, WaitUntil string
}

// triggerPath is where a development daemon runs a scheduled handler on request.
const triggerPath = "/cdn-cgi/handler/scheduled"

// cronRuns joins the runs of a cron with what their handlers logged, in order. The log of a run may come after its record.
func (c *collector) cronRuns(app, cron string) []cronRun {
	c.mu.Lock()
	defer c.mu.Unlock()
	logged := map[int64][]*seenRun{}
	for i := range c.lines {
		var seen seenRun
		if c.lines[i].Event == "scheduled" && json.Unmarshal([]byte(c.lines[i].Text), &seen) == nil && seen.Cron == cron {
			logged[seen.ScheduledTime] = append(logged[seen.ScheduledTime], &seen)
		}
	}
	var list []cronRun
	for i := range c.runs {
		r := &c.runs[i]
		if r.App != app || r.Cron != cron {
			continue
		}
		run := cronRun{Cron: r.Cron, At: r.At.UTC(), Start: r.Start.UTC(), Attempt: r.Attempt, Outcome: r.Outcome, Reason: r.Reason, Manual: r.Manual}
		if r.Error != nil {
			run.Error = r.Error.Name + ": " + r.Error.Message
		}
		if !r.Retry.IsZero() {
			run.Retry = max(1, r.Retry.Sub(r.Start.Add(r.Duration)))
		}
		if lines := logged[r.At.UnixMilli()]; len(lines) > 0 {
			run.Seen = lines[min(len(lines), max(1, r.Attempt))-1]
		}
		list = append(list, run)
	}
	return list
}

// occurrence waits until enough runs of one occurrence of a cron have ended, and takes them down. On a slow machine the
// next occurrence may come before the last try of one.
func (r *run) occurrence(cron string, runs int) {
	r.Helper()
	r.within(4*patience, fmt.Sprintf("run %d of %s", runs, cron), func() bool {
		all := r.node.cronRuns(r.c.app, cron)
		for i := range all {
			at := all[i].At
			r.o.Runs = slices.DeleteFunc(slices.Clone(all), func(c cronRun) bool { return !c.At.Equal(at) || c.Manual })
			if len(r.o.Runs) >= runs {
				return true
			}
		}
		return false
	})
}

// cronCases are the rules of scheduled handlers. The crons of the fixtures come every minute.
func cronCases() []testCase {
	return []testCase{cronValues(), cronRetry(), cronNoRetry(), cronReject(), cronLater(), cronScript(), cronCrash(), cronMissing(), cronRequest(), cronReload()}
}

const cronTriggers = "Workers docs, Cron Triggers"

// cronChanges is a wrong behaviour of the runs.
func cronChanges(name string, apply func(runs []cronRun)) wrong {
	return changes(name, func(o *observation) { apply(o.Runs) })
}

func cronValues() testCase {
	const cron = "* * * * *"
	c := testCase{id: "cron-values", rule: "the handler is given the expression and the occurrence's time in milliseconds, env, and waitUntil", source: cronTriggers, app: "cron"}
	c.drive = func(r *run) {
		r.occurrence(cron, 1)
		r.until("the log", func() bool { r.occurrence(cron, 1); return r.o.Runs[0].Seen != nil })
	}
	c.check = func(o *observation) error {
		run := o.Runs[0]
		want := seenRun{Cron: cron, ScheduledTime: run.At.UnixMilli(), Type: "number", Env: "hello", NoRetry: "function", WaitUntil: "function"}
		switch {
		case run.Seen == nil || *run.Seen != want:
			return fmt.Errorf("the handler saw %+v, want %+v", run.Seen, want)
		case !run.At.Equal(run.At.Truncate(time.Minute)) || run.Start.Before(run.At):
			return fmt.Errorf("the occurrence of %s began at %s", run.At, run.Start)
		case run.Outcome != queue.OK || run.Retry != 0 || len(o.Runs) != 1:
			return fmt.Errorf("%d runs: %+v", len(o.Runs), run)
		}
		return nil
	}
	c.wrong = []wrong{
		cronChanges("the time is that of the run", func(runs []cronRun) { runs[0].Seen.ScheduledTime++ }),
		cronChanges("the time is a Date", func(runs []cronRun) { runs[0].Seen.Type = "object" }),
		cronChanges("the expression is missing", func(runs []cronRun) { runs[0].Seen.Cron = "" }),
		cronChanges("it comes early", func(runs []cronRun) { runs[0].Start = runs[0].At.Add(-time.Second) }),
		changes("it comes twice", func(o *observation) { o.Runs = append(o.Runs, o.Runs[0]) }),
	}
	return c
}

func cronRetry() testCase {
	const cron = "*/1 * * * *"
	c := testCase{id: "cron-retry", rule: "a run that throws is tried again with back-off, for the same occurrence", source: guarantees + ", Scheduled runs", app: "cron"}
	c.drive = func(r *run) { r.occurrence(cron, 3) }
	c.check = func(o *observation) error {
		for i, run := range o.Runs {
			outcome, message, wait := queue.Failed, fmt.Sprintf("RangeError: call %d", i+1), queue.CronRetryFirst<<i
			if i == 2 {
				outcome, message, wait = queue.OK, "", 0
			}
			if run.Outcome != outcome || run.Error != message || run.Attempt != i+1 || run.Retry < wait-time.Second || run.Retry > wait+10*time.Second {
				return fmt.Errorf("run %d: %+v", i+1, run)
			}
			if i > 0 && run.Start.Sub(o.Runs[i-1].Start) < o.Runs[i-1].Retry-time.Second {
				return fmt.Errorf("run %d comes %s after the one before", i+1, run.Start.Sub(o.Runs[i-1].Start))
			}
		}
		if len(o.Runs) != 3 {
			return fmt.Errorf("%d runs", len(o.Runs))
		}
		return nil
	}
	c.wrong = []wrong{
		changes("it is not tried again", func(o *observation) { o.Runs = o.Runs[:1] }),
		cronChanges("there is no back-off", func(runs []cronRun) { runs[1].Retry = runs[0].Retry }),
		cronChanges("it does not wait", func(runs []cronRun) { runs[1].Start = runs[0].Start }),
		cronChanges("the error is lost", func(runs []cronRun) { runs[0].Error = "" }),
		cronChanges("attempts are not counted", func(runs []cronRun) { runs[2].Attempt = 1 }),
	}
	return c
}

func cronNoRetry() testCase {
	const cron = "0-59 * * * *"
	c := testCase{id: "cron-no-retry", rule: "after controller.noRetry() a failed run is not tried again", source: cronTriggers, app: "cron"}
	c.drive = func(r *run) { r.occurrence(cron, 1) }
	c.check = func(o *observation) error {
		if run := o.Runs[0]; len(o.Runs) != 1 || run.Outcome != queue.Failed || run.Error != "Error: once is enough" || run.Retry != 0 {
			return fmt.Errorf("%d runs: %+v", len(o.Runs), run)
		}
		return nil
	}
	c.wrong = []wrong{
		cronChanges("it is tried again", func(runs []cronRun) { runs[0].Retry = queue.CronRetryFirst }),
		cronChanges("it is no failure", func(runs []cronRun) { runs[0].Outcome = queue.OK }),
	}
	return c
}

func cronReject() testCase {
	const cron = "* 0-23 * * *"
	c := testCase{id: "cron-reject", rule: "a promise given to waitUntil that is rejected fails the run", source: cronTriggers, app: "cron"}
	c.drive = func(r *run) { r.occurrence(cron, 1) }
	c.check = func(o *observation) error {
		if run := o.Runs[0]; run.Outcome != queue.Failed || run.Error != "Error: rejected in waitUntil" || run.Retry == 0 {
			return fmt.Errorf("%+v", run)
		}
		return nil
	}
	c.wrong = []wrong{
		cronChanges("nobody hears of it", func(runs []cronRun) { runs[0].Outcome = queue.OK }),
		cronChanges("it is not tried again", func(runs []cronRun) { runs[0].Retry = 0 }),
	}
	return c
}

func cronLater() testCase {
	const cron = "* */1 * * *"
	c := testCase{id: "cron-wait-until", rule: "a run ends when what was given to waitUntil has ended", source: cronTriggers, app: "cronwait"}
	c.drive = func(r *run) {
		r.arrivesWithin(3*patience, "cron-later", 1)
		r.fact("ended before", len(r.node.cronRuns(r.c.app, cron)))
		r.house.gate.open("cron-later")
		r.occurrence(cron, 1)
	}
	c.check = func(o *observation) error {
		if o.Facts["ended before"] != "0" || o.Runs[0].Outcome != queue.OK {
			return fmt.Errorf("%s runs ended before: %+v", o.Facts["ended before"], o.Runs)
		}
		return nil
	}
	c.wrong = []wrong{
		changes("it ends with the handler", func(o *observation) { o.Facts["ended before"] = "1" }),
		cronChanges("it is cut off", func(runs []cronRun) { runs[0].Outcome = queue.Lost }),
	}
	return c
}

func cronScript() testCase {
	const cron = "0-59/1 * * * *"
	c := testCase{id: "cron-script", rule: "a worker in service-worker syntax gets the event", source: cronTriggers, app: "cronscript"}
	c.drive = func(r *run) {
		r.occurrence(cron, 1)
		r.until("the log", func() bool { r.occurrence(cron, 1); return r.o.Runs[0].Seen != nil })
	}
	c.check = func(o *observation) error {
		run := o.Runs[0]
		want := seenRun{Cron: cron, ScheduledTime: run.At.UnixMilli(), Type: "number", WaitUntil: "function"}
		if run.Outcome != queue.OK || run.Seen == nil || *run.Seen != want {
			return fmt.Errorf("%s: the handler saw %+v, want %+v", run.Outcome, run.Seen, want)
		}
		return nil
	}
	c.wrong = []wrong{
		cronChanges("there is no listener", func(runs []cronRun) { runs[0].Outcome = queue.Errored }),
		cronChanges("the event is empty", func(runs []cronRun) { runs[0].Seen.ScheduledTime = 0 }),
	}
	return c
}

func cronCrash() testCase {
	const cron = "* * * * *"
	c := testCase{id: "cron-crash", rule: "a run whose process dies is recorded as lost and tried again", source: guarantees + ", Scheduled runs", app: "croncrash"}
	c.drive = func(r *run) {
		r.within(3*patience, "a lost run and one after it", func() bool {
			r.o.Runs = r.node.cronRuns(r.c.app, cron)
			return len(r.o.Runs) >= 2
		})
		r.o.Runs = r.o.Runs[:2]
	}
	c.check = func(o *observation) error {
		first, second := o.Runs[0], o.Runs[1]
		// Where the process takes its time to die, the next occurrence takes the place of the second try.
		again := second.At.Equal(first.At) && second.Attempt == 2 || second.At.After(first.At) && second.Attempt == 1
		switch {
		case first.Outcome != queue.Lost || first.Attempt != 1 || first.Reason == "":
			return fmt.Errorf("the first run: %+v", first)
		case second.Outcome != queue.OK || !again:
			return fmt.Errorf("the second run: %+v", second)
		}
		return nil
	}
	c.wrong = []wrong{
		cronChanges("a loss is a failure", func(runs []cronRun) { runs[0].Outcome = queue.Failed }),
		cronChanges("nobody knows why", func(runs []cronRun) { runs[0].Reason = "" }),
		cronChanges("the next try is none", func(runs []cronRun) { runs[1].Attempt = 3 }),
		cronChanges("it does not come again", func(runs []cronRun) { runs[1].Outcome = queue.Errored }),
	}
	return c
}

func cronMissing() testCase {
	c := testCase{id: "cron-missing", rule: "crons without a scheduled handler are refused, and the version before goes on", source: guarantees + ", Scheduled runs", app: "cronless"}
	c.drive = func(r *run) {
		r.rewrite("wrangler.json", `"main": "index.js"`, `"main": "index.js", "triggers": { "crons": ["* * * * *"] }`)
		r.until("the refusal", func() bool {
			r.node.mu.Lock()
			defer r.node.mu.Unlock()
			return r.node.failed["cronless"] != nil
		})
		r.node.mu.Lock()
		r.fact("refusal", r.node.failed["cronless"].Error())
		r.node.mu.Unlock()
		r.fact("answer", r.get(r.node, "cronless", "/"))
	}
	c.check = func(o *observation) error {
		if refusal := o.Facts["refusal"]; !strings.Contains(refusal, "cronless has the cron * * * * *, but index.js has no scheduled handler") || !strings.Contains(refusal, "async scheduled(") {
			return errors.New(refusal)
		}
		if o.Facts["answer"] != "200 ok" {
			return errors.New("the version before answers " + o.Facts["answer"])
		}
		return nil
	}
	c.wrong = []wrong{
		changes("nobody says what to do", func(o *observation) { o.Facts["refusal"] = "cronless has the cron * * * * *" }),
		changes("the version before is gone", func(o *observation) { o.Facts["answer"] = "503 the app is not running" }),
	}
	return c
}

// get requests a path of an app.
func (r *run) get(n *node, app, path string) string {
	r.Helper()
	client := http.Client{Timeout: 2 * patience}
	response, err := client.Get(n.url(app) + path)
	if err != nil {
		r.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		r.Fatal(err)
	}
	return fmt.Sprint(response.StatusCode, " ", strings.TrimSpace(string(text)))
}

func cronRequest() testCase {
	c := testCase{id: "cron-request", rule: "in development, and only there, a request to /cdn-cgi/handler/scheduled runs the handler", source: cronTriggers, app: "cron"}
	c.drive = func(r *run) {
		query := func(cron string) string { return "?" + url.Values{"cron": {cron}, "time": {"86400000"}}.Encode() }
		r.fact("ok", r.get(r.node, "cron", triggerPath+query("by request")))
		r.fact("throws", r.get(r.node, "cron", triggerPath+query("0-59 * * * *")))
		r.fact("json", strings.Contains(r.get(r.node, "cron", triggerPath+query("0-59 * * * *")+"&format=json"), `"noRetry":true`))
		r.fact("production", r.get(r.house.production, "cronproduction", triggerPath+query("by request")))
		r.until("the record", func() bool {
			r.o.Runs = r.node.cronRuns("cron", "by request")
			return len(r.o.Runs) > 0 && r.o.Runs[0].Seen != nil
		})
	}
	c.check = func(o *observation) error {
		if o.Facts["ok"] != "200 ok" || o.Facts["throws"] != "500 exception" || o.Facts["json"] != "true" || o.Facts["production"] != "200 the app sees "+triggerPath {
			return fmt.Errorf("answers: %v", o.Facts)
		}
		if run := o.Runs[0]; !run.Manual || run.Outcome != queue.OK || run.Retry != 0 || run.Seen == nil || run.Seen.ScheduledTime != 86_400_000 {
			return fmt.Errorf("%+v saw %+v", run, run.Seen)
		}
		return nil
	}
	c.wrong = []wrong{
		changes("production takes it from the app", func(o *observation) { o.Facts["production"] = "200 ok" }),
		changes("a failure is a success", func(o *observation) { o.Facts["throws"] = "200 ok" }),
		cronChanges("the time is not told", func(runs []cronRun) { runs[0].Seen.ScheduledTime = 0 }),
		cronChanges("it counts as an occurrence", func(runs []cronRun) { runs[0].Manual = false }),
	}
	return c
}

func cronReload() testCase {
	c := testCase{
		id: "cron-remembered", rule: "the database remembers the crons of the live version, what was claimed last, and how runs ended",
		source: guarantees + ", Scheduled runs", app: "cron",
	}
	const cron = "* * * 1-12 *"
	c.drive = func(r *run) {
		r.occurrence(cron, 1)
		var crons int
		var at time.Time
		var outcome string
		db := r.house.databases["default"]
		if err := db.QueryRow(r.Context(), `SELECT count(*) FROM runlot_queue.cron WHERE app = 'cron'`).Scan(&crons); err != nil {
			r.Fatal(err)
		}
		err := db.QueryRow(r.Context(), `SELECT occurrence, outcome FROM runlot_queue.run WHERE app = 'cron' AND cron = $1 ORDER BY id LIMIT 1`, cron).Scan(&at, &outcome)
		if err != nil {
			r.Fatal(err)
		}
		r.fact("crons", crons)
		r.fact("kept", outcome+" "+fmt.Sprint(at.Equal(r.o.Runs[0].At)))
	}
	c.check = func(o *observation) error {
		if o.Facts["crons"] != "5" || o.Facts["kept"] != "ok true" {
			return fmt.Errorf("%v", o.Facts)
		}
		return nil
	}
	c.wrong = []wrong{
		changes("crons are not declared", func(o *observation) { o.Facts["crons"] = "0" }),
		changes("runs are not kept", func(o *observation) { o.Facts["kept"] = "" }),
	}
	return c
}
