package browser

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/runlot/runlot/internal/engine/access"
)

// TestUndo: what was done to messages has a line that takes it back, until it was used.
func TestUndo(t *testing.T) {
	w := newWorld(t)
	w.deploy("crawler", "first", [2]string{"jobs", "jobs-dead"})
	w.send("jobs", 3, 3600)
	b := w.open()
	const base = "/databases/main/queues/jobs"
	rows := `document.querySelectorAll("table.messages tbody tr").length`
	lines := `document.querySelectorAll("#undo li").length`
	b.signIn(w.token("ada", "", access.Admin), base+"/messages")
	b.until(rows + ` === 3 && ` + lines + ` === 0`)
	tickAll := func(button string) {
		t.Helper()
		eval[bool](b, `(document.querySelectorAll("input[name=id]").forEach((box) => { box.checked = true; }), document.querySelector('.chosen button[value="`+button+`"]').click(), true)`)
		b.until(`document.querySelector("#dialog:modal") !== null`)
	}
	undo := func() {
		t.Helper()
		eval[bool](b, `(document.querySelector("#undo li button[type=submit]").click(), true)`)
	}

	// Deleted: the line stays over a reload, and is reached and used by keyboard.
	tickAll("delete")
	if got := b.text("#dialog-text"); !strings.Contains(got, "For an hour it can be undone") {
		t.Errorf("the dialog says %q", got)
	}
	b.yes()
	b.until(rows + ` === 0 && ` + lines + ` === 1`)
	b.visit(base + "/messages")
	b.until(lines + ` === 1`)
	if got := b.text("#undo li form"); !regexp.MustCompile(`^Deleted 3 messages .*\. Undo.* Can be undone until \d\d:\d\d:\d\d UTC\.$`).MatchString(got) {
		t.Errorf("the line is %q", got)
	}
	if got := eval[string](b, `document.querySelector("#undo .command code").textContent`); !regexp.MustCompile(`^runlot queue undo jobs [0-9a-f]{16} --database main$`).MatchString(got) {
		t.Errorf("the command is %q", got)
	}
	b.do(chromedp.Focus(chromedp.CSS(`#undo li button[type=submit]`)), chromedp.KeyEvent(kb.Enter))
	b.until(rows + ` === 3 && ` + lines + ` === 0 && ` + says("#notice", "Undone: 3 messages are as they were."))

	// Made visible: they wait again.
	tickAll("retry")
	b.yes()
	b.until(lines + ` === 1 && document.querySelector("#found").innerText.includes("visible")`)
	undo()
	b.until(lines + ` === 0 && ` + says("#notice", "Undone: 3 messages are as they were.") + ` && !document.querySelector("#found").innerText.includes("visible")`)

	// One message, from its own page: the line is there too.
	eval[bool](b, `(document.querySelector("table.messages a.name").click(), true)`)
	b.until(`document.querySelector("h1.mono") !== null`)
	b.ask("retry")
	b.yes()
	b.until(lines + ` === 1 && document.querySelector("h1.mono") !== null`)
	undo()
	b.until(lines + ` === 0 && ` + says("#notice", "Undone: 1 message is as it was."))

	// Redriven, and one of them taken meanwhile: an undo that comes late says so.
	w.send("jobs", 3, 0)
	w.kill(3)
	b.visit(base + "-dead/messages")
	b.until(rows + ` === 3`)
	b.ask("redrive")
	b.yes()
	b.until(rows + ` === 0 && ` + lines + ` === 1`)
	w.lease("jobs", 1)
	undo()
	b.until(rows + ` === 2 && ` + lines + ` === 0 && ` + says("#notice", "Undone for 2 messages. Too late for the others: 1 being delivered (…"))

	// What others undid is no longer offered.
	tickAll("delete")
	b.yes()
	b.until(lines + ` === 1`)
	other := w.visitor()
	other.signIn(w.token("bob", "", access.Deploy), "/")
	_, text := other.ask(http.MethodGet, base+"-dead/messages", nil)
	id := regexp.MustCompile(`name="undo" value="([0-9a-f]+)"`).FindStringSubmatch(text)
	if id == nil {
		t.Fatalf("another sees no line: %s", text)
	}
	// Without scripts it is a form like any other.
	_, text = other.ask(http.MethodPost, base+"-dead/messages/undo", url.Values{"undo": {id[1]}, "next": {base + "-dead/messages"}})
	if !strings.Contains(text, "Undone: 2\u00a0messages are as they were.") && !strings.Contains(text, "Undone: 2 messages are as they were.") {
		t.Errorf("undone without scripts: %s", text)
	}
	b.until(lines + ` === 0 && ` + rows + ` === 2`)
	if _, text = other.ask(http.MethodPost, base+"-dead/messages/undo", url.Values{"undo": {id[1]}, "next": {base + "-dead/messages"}}); !strings.Contains(text, "there is nothing named") {
		t.Errorf("undone twice: %s", text)
	}

	// Whoever only looks is offered nothing, and the server refuses it.
	tickAll("delete")
	b.yes()
	b.until(lines + ` === 1`)
	wall := w.visitor()
	wall.signIn(w.token("wall", "", access.Read), "/")
	if _, text = wall.ask(http.MethodGet, base+"-dead/messages", nil); strings.Contains(text, `name="undo"`) {
		t.Error("a token that reads is offered an undo")
	}
	id = regexp.MustCompile(`value="([0-9a-f]{16})"`).FindStringSubmatch(eval[string](b, `document.querySelector("#undo").innerHTML`))
	if response, _ := wall.ask(http.MethodPost, base+"-dead/messages/undo", url.Values{"undo": {id[1]}}); response.StatusCode != http.StatusForbidden {
		t.Errorf("a token that reads undoes: %s", response.Status)
	}
	// A purge takes it along.
	b.ask("purge")
	b.yes()
	b.until(lines + ` === 0`)
}
