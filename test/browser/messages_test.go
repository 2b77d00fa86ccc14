package browser

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/server/dashboard/jsontree"
)

// kill moves n messages of the queue jobs to its dead-letter queue.
func (w *world) kill(n int) {
	w.t.Helper()
	lane, err := w.queues.db.Broker.Lane("jobs")
	if err != nil {
		w.t.Fatal(err)
	}
	defer lane.Close()
	for n > 0 {
		batch, err := lane.Next(w.t.Context(), n, 0)
		if err != nil {
			w.t.Fatal(err)
		}
		decisions := make([]queue.Decision, len(batch.Messages))
		for i := range decisions {
			decisions[i] = queue.Decision{Seq: batch.Messages[i].Seq, Verdict: queue.DeadLetter, Reason: "TypeError: no url"}
		}
		done := make(chan error, 1)
		lane.Settle(batch, decisions, "jobs-dead", func(err error) { done <- err })
		if err := <-done; err != nil {
			w.t.Fatal(err)
		}
		n -= len(decisions)
	}
}

// lease takes n messages of a queue, and settles them when the test ends.
func (w *world) lease(name string, n int) {
	w.t.Helper()
	lane, err := w.queues.db.Broker.Lane(name)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := lane.Next(w.t.Context(), n, 0); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(lane.Close)
}

// ask opens the dialog of a button, and says yes.
func (b *tab) ask(button string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS("#ask\\." + button)))
	b.until(`document.querySelector("#dialog:modal") !== null`)
}

func (b *tab) yes() {
	b.t.Helper()
	eval[bool](b, `(document.querySelector("#dialog-form button[type=submit]").click(), true)`)
	b.until(`document.querySelector("#dialog") === null`)
}

func TestMessagesOfAQueue(t *testing.T) {
	w := newWorld(t)
	w.deploy("crawler", "first", [2]string{"jobs", "jobs-dead"})
	w.send("jobs", 3, 3600)
	b := w.open()
	const base = "/databases/main/queues/jobs"
	rows := `document.querySelectorAll("table.messages tbody tr").length`
	b.signIn(w.token("ada", "", access.Admin), base+"/messages")
	b.until(rows + ` === 3`)

	find := func(filter string) {
		t.Helper()
		eval[bool](b, `(document.querySelector("#find").value = `+quoted(filter)+`, document.querySelector("form[role=search]").requestSubmit(), true)`)
		b.until(`new URLSearchParams(location.search).get("filter") === ` + quoted(filter))
	}
	find("stat:visible")
	b.until(`document.querySelector("#filter-problem") !== null`)
	if got := b.text("#filter-problem"); !strings.Contains(got, "stat") || !strings.Contains(got, "state") {
		t.Errorf("a filter that is none is told as %q", got)
	}
	if n := eval[int](b, `document.querySelectorAll("#ask\\.delete, #ask\\.retry, #ask\\.redrive").length`); n != 0 {
		t.Errorf("%d buttons are for all that match a filter that is none", n)
	}
	if got := b.text("nav.spans"); got != "all 3 visible 0 delayed 3 in flight 0 settled" {
		t.Errorf("the states are %q", got)
	}
	find("body.n:2")
	b.until(`document.querySelector(".empty") !== null && ` + rows + ` === 0`)
	find("state:delayed body.n:1")
	b.until(rows + ` === 3`)
	if text := eval[string](b, `document.querySelector("main").innerText`); !strings.Contains(text, "3\u00a0messages match") {
		t.Errorf("how many match is not said: %s", text)
	}

	// Those whose boxes are ticked.
	w.send("jobs", 2, 7200)
	b.visit(base + "/messages?filter=state:delayed")
	b.until(rows + ` === 5`)
	eval[bool](b, `([...document.querySelectorAll("input[name=id]")].slice(-2).forEach((box) => { box.checked = true; }), document.querySelector('.chosen button[value="delete"]').click(), true)`)
	b.until(`document.querySelector("#dialog:modal") !== null`)
	if got := b.text("#dialog-title"); got != "Delete 2 messages?" {
		t.Errorf("the dialog asks %q", got)
	}
	b.yes()
	b.until(`document.querySelector("#notice").innerText.includes("Deleted 2 messages") && ` + rows + ` === 3`)

	// One message, whole; then it is deleted.
	eval[bool](b, `(document.querySelector("table.messages a.name").click(), true)`)
	b.until(`document.querySelector("#body") !== null && document.querySelector("h1.mono") !== null`)
	if got := b.text("#body"); got != `{ "n": 1 }` {
		t.Errorf("the body is %q", got)
	}
	b.ask("delete")
	if got := b.text("#dialog .command code"); !strings.HasPrefix(got, "runlot queue delete jobs ") || !strings.HasSuffix(got, " --database main") {
		t.Errorf("the command is %q", got)
	}
	b.yes()
	b.until(`document.querySelector("#notice").innerText.includes("Deleted the message") && ` + rows + ` === 2`)

	// A message that is sent here arrives as it was typed, however long its numbers.
	b.ask("send")
	eval[bool](b, `(document.querySelector("#dialog textarea").value = '{"id": 12345678901234567890}', true)`)
	b.yes()
	b.until(`document.querySelector("main").innerText.includes("12345678901234567890")`)
	b.ask("send")
	eval[bool](b, `(document.querySelector("#dialog textarea").value = '{"id": ', true)`)
	b.yes()
	b.until(`document.querySelector("#notice .bad, #notice.bad, .notice.bad") !== null`)

	// All dead letters that match go back, in the background, and one is mended on its way.
	w.send("jobs", 4, 0)
	w.kill(5)
	b.visit(base + "-dead/messages?filter=reason:url+body.n:1")
	b.until(rows + ` === 4`)
	b.ask("redrive")
	b.yes()
	b.until(`document.querySelector("#background").innerText.includes("done") && document.querySelector("#background").innerText.includes("4\u00a0messages of 4")`)
	b.visit(base + "-dead/messages")
	b.until(rows + ` === 1`)
	eval[bool](b, `(document.querySelector("table.messages a.name").click(), true)`)
	b.until(`document.querySelector("h1.mono") !== null && document.querySelector("main").innerText.includes("TypeError: no url")`)
	b.ask("redrive")
	eval[bool](b, `(document.querySelector("#dialog textarea").value = '{"id": 7}', true)`)
	b.yes()
	b.until(`document.querySelector("#notice").innerText.includes("another body")`)
	b.visit(base + "/messages?filter=body.id:7")
	b.until(rows + ` === 1`)

	q, err := w.admin.Queue(t.Context(), "main", "jobs")
	if err != nil || q.Unsettled != 7 {
		t.Errorf("%+v, %v", q, err)
	}
	b.visit(base + "/messages?ask=delete")
	b.until(rows + ` === 7 && document.querySelector("#dialog") === null`)
	b.visit(base + "/messages")
	b.ask("retry")
	if got := b.text("#dialog .command code"); got != "runlot queue retry jobs --filter state:delayed --database main" {
		t.Errorf("the command is %q", got)
	}
	b.yes()
	b.until(`document.querySelector("#background").innerText.includes("state:delayed") && document.querySelector("#background").innerText.includes("done")`)
	b.ask("purge")
	b.yes()
	b.until(`document.querySelector("#notice").innerText.includes("Deleted 7")`)
}

// TestBodies: each is shown as what it is.
func TestBodies(t *testing.T) {
	w := newWorld(t)
	w.deploy("crawler", "first", [2]string{"jobs", "jobs-dead"})
	b := w.open()
	b.signIn(w.token("ada", "", access.Read), "/databases/main/queues/jobs/messages")
	show := func(kind, body string) {
		t.Helper()
		if _, err := w.admin.Send(t.Context(), "main", "jobs", []client.Draft{{Body: json.RawMessage(body), ContentType: kind}}); err != nil {
			t.Fatal(err)
		}
		page, err := w.admin.Peek(t.Context(), "main", "jobs", "", "", 10)
		if err != nil {
			t.Fatal(err)
		}
		b.visit("/databases/main/queues/jobs/messages/" + page.Items[len(page.Items)-1].ID)
		b.until(`document.querySelector("#body") !== null`)
	}
	show("json", `{"id":12345678901234567890,"user":{"name":"<b>&","tags":[1.50,"}"]},"ok":true}`)
	if got := b.text("#body"); got != `{ "id": 12345678901234567890, "user": { "name": "<b>&", "tags": [ 1.50, "}" ] }, "ok": true }` {
		t.Errorf("the body is %q", got)
	}
	// A part is closed and opened, by the keyboard too.
	eval[bool](b, `(document.querySelectorAll("#body summary")[1].focus(), true)`)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.until(`!document.querySelectorAll("#body details")[1].open`)
	if got := b.text("#body"); got != `{ "id": 12345678901234567890, "user": { "ok": true }` {
		t.Errorf("the closed body is %q", got)
	}
	show("json", "["+strings.Repeat("7,", jsontree.MaxLines)+"7]")
	if tag := eval[string](b, `document.querySelector("#body").tagName`); tag != "PRE" {
		t.Errorf("a body that is too large for a tree is in a %s", tag)
	}
	show("text", `"<script>two\nlines"`)
	if got := eval[string](b, `document.querySelector("#body").textContent`); got != "<script>two\nlines" {
		t.Errorf("the text is %q", got)
	}
	show("bytes", `"AP9SdW5sb3Q="`)
	if got := b.text("#body"); got != "00000000 00 ff 52 75 6e 6c 6f 74 |..Runlot|" {
		t.Errorf("the bytes are %q", got)
	}
}

// A form changes no body that nobody changed: a browser drops a line feed at the beginning of a field.
func TestRedriveKeepsABodyThatNobodyChanged(t *testing.T) {
	w := newWorld(t)
	w.deploy("crawler", "first", [2]string{"jobs", "jobs-dead"})
	const body = `"\n\nfirst\nlast\n"`
	if _, err := w.admin.Send(t.Context(), "main", "jobs", []client.Draft{{Body: json.RawMessage(body), ContentType: "text"}}); err != nil {
		t.Fatal(err)
	}
	w.kill(1)
	dead, err := w.admin.Peek(t.Context(), "main", "jobs-dead", "", "", 2)
	if err != nil || len(dead.Items) != 1 {
		t.Fatalf("%+v, %v", dead, err)
	}
	b := w.open()
	path := "/databases/main/queues/jobs-dead/messages/" + dead.Items[0].ID
	b.signIn(w.token("ada", "", access.Admin), path)
	b.until(`document.querySelector("h1.mono") !== null`)
	b.ask("redrive")
	b.yes()
	b.until(`document.querySelector("#notice").innerText.includes("Redrove 1 message.")`)
	back, err := w.admin.Peek(t.Context(), "main", "jobs", "", "", 2)
	if err != nil || len(back.Items) != 1 {
		t.Fatalf("%+v, %v", back, err)
	}
	if m := back.Items[0]; m.ID != dead.Items[0].ID || string(m.Body) != body {
		t.Errorf("%s %s came back as %s %s", dead.Items[0].ID, body, m.ID, m.Body)
	}
}

func TestMessagesForThoseWhoOnlyLook(t *testing.T) {
	w := newWorld(t)
	w.deploy("crawler", "first", [2]string{"jobs", "jobs-dead"})
	w.send("jobs", 1, 3600)
	b := w.open()
	b.expectErrors()
	const base = "/databases/main/queues/jobs/messages"
	b.signIn(w.token("wall", "", access.Read), base)
	for _, path := range []string{base, base + "?ask=purge", base + "?filter=state:delayed&ask=delete"} {
		b.visit(path)
		b.until(`document.querySelector("table.messages") !== null`)
		if n := eval[int](b, `document.querySelectorAll("main .asks, main form[method=post], main input[type=checkbox], dialog").length`); n != 0 {
			t.Errorf("%s has %d ways to change something", path, n)
		}
	}
	for _, verb := range []string{"purge", "send", "redrive", "delete", "retry"} {
		if got := eval[int](b, fmt.Sprintf(`fetch(%q, { method: "POST", body: new URLSearchParams({ body: "1", type: "json", filter: "age>0s" }) }).then((r) => r.status)`, base+"/"+verb)); got != 403 {
			t.Errorf("a forged %s gets %d", verb, got)
		}
	}
	if q, err := w.admin.Queue(t.Context(), "main", "jobs"); err != nil || q.Unsettled != 1 {
		t.Errorf("%+v, %v", q, err)
	}
}
