package browser

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/ledger"
)

// cell is an expression for what the cell of a queue's row with a label says.
func cell(queueName, label string) string {
	return fmt.Sprintf(`document.getElementById("queue.main.%s")?.querySelector('[data-label=%q]').innerText.trim()`, queueName, label)
}

func says(selector, text string) string {
	return fmt.Sprintf(`document.querySelector(%s)?.innerText.includes(%s)`, quoted(selector), quoted(text))
}

func TestSignIn(t *testing.T) {
	w := newWorld(t)
	w.deploy("crawler", "first", [2]string{"jobs", "jobs-dead"})
	b := w.open()
	b.expectErrors()
	b.visit("/apps/crawler/queues?sort=-visible")
	b.until(`location.pathname === "/login"`)
	b.do(chromedp.SendKeys(chromedp.CSS("#token"), "runlot_wrong"), chromedp.Click(chromedp.CSS("form .primary")))
	b.until(says("#problem", "opens nothing"))
	b.until(`document.activeElement.id === "token" && document.querySelector("#token").value === ""`)
	token := w.token("ada", "", access.Deploy)
	b.do(chromedp.SendKeys(chromedp.CSS("#token"), token+kb.Enter))
	b.until(`location.pathname + location.search === "/apps/crawler/queues?sort=-visible"`)
	b.until(says(".who", "ada deploy"))
	if cookies := eval[string](b, `document.cookie`); cookies != "" {
		t.Errorf("scripts can read %q", cookies)
	}

	tokens, err := w.admin.Tokens(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range tokens {
		if one.Name == "ada" {
			if err := w.admin.RevokeToken(t.Context(), one.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The view that is open finds out by itself.
	b.until(`location.pathname === "/login"`)
	b.do(chromedp.SendKeys(chromedp.CSS("#token"), w.token("bob", "", access.Admin)+kb.Enter))
	b.until(`location.pathname + location.search === "/apps/crawler/queues?sort=-visible"`)
	b.do(chromedp.Click(chromedp.CSS(`form[action="/logout"] button`)))
	b.until(`location.pathname === "/login"`)
	b.visit("/queues")
	b.until(`location.pathname === "/login"`)
}

func TestQueuesAreKeptUpToDate(t *testing.T) {
	w := newWorld(t)
	w.deploy("crawler", "first", [2]string{"jobs", "jobs-dead"}, [2]string{"mail", ""})
	b := w.open()
	b.signIn(w.token("ada", "", access.Admin), "/apps/crawler/queues")
	b.until(`document.querySelector("#live").dataset.state === "live"`)
	// What somebody does meanwhile is not disturbed: the page is not loaded again, and the focus stays.
	eval[bool](b, `(window.mark = document.getElementById("queue.main.jobs"), document.querySelector("#batch-outcome").focus(), true)`)
	w.send("jobs", 1234, 0)
	b.until(cell("jobs", "Visible") + ` === "1\u202f234"`)
	w.send("jobs-dead", 3, 0)
	b.until(cell("jobs", "Dead letters") + ` === "3"`)
	w.batch(fine("jobs", 7))
	b.until(says("#batch-rows", "7"))
	if !eval[bool](b, `window.mark === document.getElementById("queue.main.jobs") && document.activeElement.id === "batch-outcome"`) {
		t.Error("the row was made anew, or the focus is lost")
	}
	// A version with another queue brings its row.
	w.deploy("crawler", "second", [2]string{"jobs", "jobs-dead"}, [2]string{"mail", ""}, [2]string{"thumbnails", ""})
	b.until(`document.getElementById("queue.main.thumbnails") !== null`)
	if order := eval[string](b, `[...document.querySelectorAll("#queue-rows > tr")].map((row) => row.id).join()`); order !=
		"queue.main.jobs,queue.main.jobs-dead,queue.main.mail,queue.main.thumbnails" {
		t.Errorf("the rows are %s", order)
	}

	b.do(chromedp.Click(chromedp.CSS("#live")))
	b.until(`document.querySelector("#live").getAttribute("aria-pressed") === "false" && ` + says("#live", "Paused"))
	eval[bool](b, `(window.since = performance.now(), true)`)
	w.send("mail", 5, 0)
	eval[bool](b, `new Promise((done) => setTimeout(() => done(true), 2500))`)
	if got := eval[string](b, cell("mail", "Visible")); got != "0" {
		t.Errorf("a paused view shows %s", got)
	}
	if n := eval[int](b, `performance.getEntriesByType("resource").filter((e) => e.startTime > window.since).length`); n != 0 {
		t.Errorf("a paused view made %d requests", n)
	}
	b.do(chromedp.Click(chromedp.CSS("#live")))
	b.until(cell("mail", "Visible") + ` === "5"`)
}

func TestAViewSurvivesALostConnection(t *testing.T) {
	w := newWorld(t)
	w.deploy("crawler", "first", [2]string{"jobs", ""})
	b := w.open()
	b.expectErrors()
	b.signIn(w.token("ada", "", access.Admin), "/queues")
	b.until(`document.querySelector("#live").dataset.state === "live"`)
	w.server.CloseClientConnections()
	w.send("jobs", 9, 0)
	b.until(cell("jobs", "Visible") + ` === "9"`)
	b.until(`document.querySelector("#live").dataset.state === "live"`)
}

func TestPauseAndResume(t *testing.T) {
	w := newWorld(t)
	w.deploy("crawler", "first", [2]string{"jobs", "jobs-dead"})
	b := w.open()
	b.signIn(w.token("ada", "", access.Deploy), "/queues")
	button := chromedp.CSS(`[id="act.queue.main.jobs"]`)
	b.do(chromedp.Click(button))
	b.until(`document.querySelector("dialog")?.matches(":modal") && location.search.includes("ask=pause")`)
	if got := b.text("dialog .command code"); got != "runlot queue pause jobs --database main" {
		t.Errorf("the command is %q", got)
	}
	// Escape takes it back, and the focus returns to where it was.
	b.do(chromedp.KeyEvent(kb.Escape))
	b.until(`!document.querySelector("dialog") && location.search === "" && document.activeElement.id === "act.queue.main.jobs"`)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.until(`document.querySelector("dialog")?.matches(":modal") && document.activeElement.textContent === "Pause"`)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.until(says("#notice", "Paused jobs"))
	b.until(says(`[id="queue.main.jobs"]`, "paused"))
	if q, err := w.admin.Queue(t.Context(), "main", "jobs"); err != nil || q.PausedSince == nil {
		t.Errorf("%+v, %v", q, err)
	}
	b.do(chromedp.Click(button))
	b.until(says("dialog h2", "Resume jobs?"))
	b.do(chromedp.Click(chromedp.CSS("dialog .primary")))
	b.until(says("#notice", "Resumed jobs"))
	if q, err := w.admin.Queue(t.Context(), "main", "jobs"); err != nil || q.PausedSince != nil {
		t.Errorf("%+v, %v", q, err)
	}
	// What is said is said once.
	b.do(chromedp.Reload())
	b.until(`document.querySelector("#notice").innerText === ""`)
	events, err := w.admin.Events(t.Context(), "", 0, 2)
	if err != nil || len(events) != 2 || events[0].Kind != "queue.resumed" || events[0].Author != "ada" {
		t.Errorf("%+v, %v", events, err)
	}
}

func TestBatches(t *testing.T) {
	w := newWorld(t)
	w.deploy("crawler", "first", [2]string{"jobs", "jobs-dead"}, [2]string{"mail", ""})
	id := w.batch(failed("jobs"), ledger.Line{Level: "error", Text: "no url in <this>"})
	w.batch(fine("mail", 3))
	w.batch(fine("jobs", 10))
	b := w.open()
	b.signIn(w.token("ada", "", access.Read), "/apps/crawler/queues")
	rows := `document.querySelectorAll("#batch-rows > tbody").length`
	b.until(rows + " === 3")
	choose := func(id, value string) {
		eval[bool](b, fmt.Sprintf(`((s) => { s.focus(); s.value = %q; s.dispatchEvent(new Event("change", { bubbles: true })); return true })(document.getElementById(%q))`, value, id))
	}
	choose("batch-outcome", "failed")
	b.until(rows + ` === 1 && location.search === "?outcome=failed"`)
	choose("batch-outcome", "expired")
	b.until(says("#batch-table", "No batch matches"))
	choose("batch-outcome", "")
	choose("batch-queue", "jobs")
	b.until(rows + ` === 2 && location.search === "?queue=jobs"`)
	b.do(chromedp.Click(chromedp.CSS(fmt.Sprintf(`[id="open.batch.main.%s"]`, id))))
	b.until(`document.querySelector(".whole") !== null && location.search.includes("batch=")`)
	detail := b.text(".detail")
	for _, want := range []string{
		"TypeError: Cannot read properties of null (reading 'url')", "at src/index.ts:29:38", "retried", "dead", "10 s", "no url in <this>", "runlot queue batch " + id,
	} {
		if !strings.Contains(detail, want) {
			t.Errorf("%q is not in %q", want, detail)
		}
	}
	// The address shows the same, and back shows the view before.
	b.do(chromedp.Reload())
	b.until(rows + ` === 2 && document.querySelector(".whole") !== null`)
	b.do(chromedp.Click(chromedp.CSS(".whole summary")))
	b.until(`document.querySelector(".whole details").open`)
	w.batch(fine("jobs", 1))
	b.until(rows + ` === 3 && document.querySelector(".whole details").open`)
	b.do(chromedp.NavigateBack())
	b.until(rows + ` === 3 && document.querySelector(".whole") === null`)
	b.visit("/apps/crawler/logs?outcome=failed")
	b.until(says("#log-entries", "no url in <this>"))
	b.visit("/queues?outcome=ok&batch=main/" + id)
	b.until(says(".whole", "src/index.ts:29:38"))
}

func TestRollBack(t *testing.T) {
	w := newWorld(t)
	w.deploy("crawler", "first", [2]string{"jobs", ""})
	w.deploy("crawler", "second", [2]string{"jobs", ""})
	b := w.open()
	b.signIn(w.token("ada", "crawler", access.Deploy), "/apps/crawler/versions")
	if got := b.text("#version-rows > .is-live th"); got != "2 live" {
		t.Errorf("live is %q", got)
	}
	b.do(chromedp.Click(chromedp.CSS(`[id="act.version.1"]`)))
	b.until(says("dialog", "runlot rollback 1 --app crawler"))
	b.do(chromedp.Click(chromedp.CSS("dialog .primary")))
	b.until(says("#notice", "crawler is on version 1") + ` && ` + says("#version-rows > .is-live th", "1"))
	b.until(says("#deployments", "ada went back to version 1"))
	a, err := w.admin.App(t.Context(), "crawler")
	if err != nil || a.Live.Number != 1 {
		t.Errorf("%+v, %v", a, err)
	}
	b.visit("/apps/crawler")
	b.until(says("#events", "ada went back to version 1"))
}

func TestScheduledRuns(t *testing.T) {
	w := newWorld(t)
	w.deploy("crawler", "first", [2]string{"jobs", ""})
	b := w.open()
	b.signIn(w.token("ada", "crawler", access.Deploy), "/apps/crawler/scheduled")
	if got := b.text("#cron-rows"); !strings.HasPrefix(got, "0 7 * * * at 07:00, every day in 3 h none yet waits Run now") {
		t.Errorf("the cron is %q", got)
	}
	b.do(chromedp.Click(chromedp.CSS(`[id="act.cron.0"]`)))
	b.until(says("dialog", "runlot cron run '0 7 * * *' --app crawler"))
	b.do(chromedp.Click(chromedp.CSS("dialog .primary")))
	b.until(says("#notice", "0 7 * * * ran: ok") + ` && ` + says("#run-rows", "by hand"))
	b.visit("/apps/crawler/scheduled?outcome=failed")
	b.until(says("#runs", "No run matches"))
}

func TestATokenThatReadsChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.deploy("crawler", "first", [2]string{"jobs", ""})
	w.deploy("crawler", "second", [2]string{"jobs", ""})
	b := w.open()
	b.expectErrors()
	b.signIn(w.token("wall", "", access.Read), "/queues")
	for _, path := range []string{
		"/queues", "/apps/crawler/queues", "/apps/crawler/versions", "/databases/main/queues/jobs", "/queues?ask=pause&on=main/jobs", "/apps/crawler/versions?ask=rollback&version=1",
	} {
		b.visit(path)
		b.until(`document.querySelector("main h1") !== null && document.querySelector("main h1").innerText !== "Not here"`)
		if n := eval[int](b, `document.querySelectorAll("main .button, main form[method=post], dialog").length`); n != 0 {
			t.Errorf("%s has %d buttons", path, n)
		}
	}
	for _, path := range []string{"/databases/main/queues/jobs/pause", "/apps/crawler/rollback"} {
		if got := eval[int](b, fmt.Sprintf(`fetch(%q, { method: "POST", body: new URLSearchParams({ version: "1" }) }).then((r) => r.status)`, path)); got != 403 {
			t.Errorf("a forged POST to %s gets %d", path, got)
		}
	}
	q, err := w.admin.Queue(t.Context(), "main", "jobs")
	a, errApp := w.admin.App(t.Context(), "crawler")
	if err != nil || errApp != nil || q.PausedSince != nil || a.Live.Number != 2 {
		t.Errorf("%+v, %+v, %v, %v", q, a, err, errApp)
	}
}

func TestThreeHundredQueues(t *testing.T) {
	w := newWorld(t)
	names := make([][2]string, 0, 300)
	for i := range cap(names) {
		names = append(names, [2]string{fmt.Sprintf("queue-%03d", i), ""})
	}
	w.deploy("crawler", "many", names...)
	b := w.open()
	b.signIn(w.token("ada", "", access.Admin), "/queues")
	rows := `document.querySelectorAll("#queue-rows > tr").length`
	b.until(rows + ` === 300 && document.querySelector("#live").dataset.state === "live"`)
	eval[bool](b, `(window.changed = [], new MutationObserver((list) => { for (const m of list) window.changed.push((m.target.parentElement ?? m.target).closest("tr")?.id) })
		.observe(document.querySelector("#queue-rows"), { subtree: true, childList: true, characterData: true, attributes: true }), true)`)
	w.send("queue-123", 42, 0)
	b.until(cell("queue-123", "Visible") + ` === "42"`)
	if changed := eval[string](b, `[...new Set(window.changed)].join()`); changed != "queue.main.queue-123" {
		t.Errorf("changed were the rows %s", changed)
	}
	// A key that the protocol sends is typed whatever the page says to it.
	eval[bool](b, `document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "/", bubbles: true, cancelable: true })) === false`)
	b.do(chromedp.KeyEvent("12"))
	b.until(rows + ` === 13 && location.search === "?find=12" && document.activeElement.id === "find"`)
	b.do(chromedp.Click(chromedp.CSS("#sort-visible")))
	b.until(`document.querySelector("#queue-rows > tr").id === "queue.main.queue-123" && document.querySelector("[aria-sort]").getAttribute("aria-sort") === "descending"`)
}

func TestTheKeyboardReachesEverything(t *testing.T) {
	w := newWorld(t)
	w.deploy("crawler", "first", [2]string{"jobs", "jobs-dead"})
	w.batch(failed("jobs"))
	b := w.open()
	b.signIn(w.token("ada", "", access.Admin), "/")
	b.visit("/apps/crawler/queues")
	b.until(`document.querySelector("#live").dataset.state === "live"`)
	b.do(chromedp.KeyEvent(kb.Tab))
	if got := eval[string](b, `document.activeElement.className`); got != "skip" {
		t.Errorf("the first stop is %q", got)
	}
	want := eval[int](b, `[...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, summary")].filter((e) => e.checkVisibility()).length`)
	seen := map[string]bool{}
	for range want {
		name := eval[string](b, `(() => { const e = document.activeElement; const r = getComputedStyle(e); return [...document.querySelectorAll("a, button, input, select, summary")].indexOf(e) + "|" + e.tagName + "|" + e.id + "|" + (e.getAttribute("href") ?? "") + "|" + e.innerText + "|" + r.outlineStyle })()`)
		if strings.HasSuffix(name, "|none") {
			t.Errorf("%s shows no focus", name)
		}
		seen[name] = true
		b.do(chromedp.KeyEvent(kb.Tab))
	}
	if len(seen) < want-1 {
		t.Errorf("%d stops of %d: %v", len(seen), want, seen)
	}
	// A link of the main navigation by the keyboard alone: the heading of the page that it leads to has the focus.
	eval[bool](b, `(document.querySelector('nav.main a[href="/queues"]').focus(), true)`)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.until(`location.pathname === "/queues" && document.activeElement.tagName === "H1" && document.title === "Queues · Runlot"`)
}

func TestTheThemeIsKept(t *testing.T) {
	w := newWorld(t)
	b := w.open()
	b.signIn(w.token("ada", "", access.Admin), "/")
	ground := `getComputedStyle(document.body).backgroundColor`
	light := eval[string](b, ground)
	b.do(chromedp.Click(chromedp.CSS("#theme")))
	b.until(ground + " !== " + quoted(light))
	b.visit("/queues")
	if dark := eval[string](b, ground); dark == light {
		t.Error("it is light again")
	}
}

func TestAccessibilityRules(t *testing.T) {
	axe, err := os.ReadFile("../../node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Skip("axe is not there; `make deps` brings it")
	}
	w := newWorld(t)
	b := w.open()
	check := func(path, theme string, width int64) {
		t.Helper()
		b.visit(path)
		b.do(chromedp.EmulateViewport(width, 900))
		b.until(`document.querySelector("main h1") !== null`)
		eval[bool](b, `(document.documentElement.dataset.theme = `+quoted(theme)+`, true)`)
		eval[bool](b, string(axe)+`; true`)
		found := eval[[]string](b, `axe.run(document, { resultTypes: ["violations"] }).then((r) => r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.html.slice(0, 200) + " " + n.failureSummary)))`)
		for _, problem := range found {
			t.Errorf("%s (%s, %d px): %s", path, theme, width, problem)
		}
	}
	check("/login", "light", 1440)
	check("/login", "dark", 375)
	b.signIn(w.token("ada", "", access.Admin), "/")
	check("/", "light", 1440)
	check("/queues", "dark", 1440)
	opened := furnish(w)
	list, err := w.admin.Peek(t.Context(), "main", "jobs", "", "", 2)
	if err != nil || len(list.Items) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	if _, err := w.admin.DeleteMessages(t.Context(), "main", "jobs", []string{list.Items[1].ID}); err != nil {
		t.Fatal(err)
	}
	one := "/databases/main/queues/jobs/messages/" + list.Items[0].ID
	for _, path := range []string{
		"/", "/queues", "/apps/crawler", "/apps/crawler/queues?batch=main/" + opened, "/apps/crawler/versions", "/apps/crawler/logs", "/apps/crawler/scheduled", "/databases/main/queues/jobs",
		"/databases/main/queues/jobs/messages", "/databases/main/queues/jobs/messages?filter=state:delayed&ask=delete", "/databases/main/queues/jobs/messages?ask=send",
		"/databases/main/queues/jobs/messages?filter=stat:x", one, one + "?ask=delete", "/queues?ask=pause&on=main/jobs",
	} {
		check(path, "light", 1440)
		check(path, "dark", 375)
	}
}
