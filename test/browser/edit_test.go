package browser

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/engine/access"
)

// TestAnEditedTextKeepsWhatAFieldCannotHold: a field of a form has line feeds alone, so that a text with other control
// characters is edited as a JSON string.
func TestAnEditedTextKeepsWhatAFieldCannotHold(t *testing.T) {
	w := newWorld(t)
	w.deploy("crawler", "first", [2]string{"jobs", "jobs-dead"})
	const body = `"lone\rcr\r\nboth\u0000"`
	if _, err := w.admin.Send(t.Context(), "main", "jobs", []client.Draft{{Body: json.RawMessage(body), ContentType: "text"}}); err != nil {
		t.Fatal(err)
	}
	w.kill(1)
	dead, err := w.admin.Peek(t.Context(), "main", "jobs-dead", "", "", 2)
	if err != nil || len(dead.Items) != 1 {
		t.Fatalf("%+v, %v", dead, err)
	}
	b := w.open()
	b.signIn(w.token("ada", "", access.Admin), "/databases/main/queues/jobs-dead/messages/"+dead.Items[0].ID+"?ask=redrive")
	b.until(`document.querySelector("#dialog:modal") !== null`)
	if got := eval[string](b, `document.querySelector("#dialog textarea").value`); got != body {
		t.Errorf("the field has %s", got)
	}
	b.fill("body", `"lone`)
	b.yes()
	b.until(says("#notice", "the body is no JSON string"))
	b.visit("/databases/main/queues/jobs-dead/messages/" + dead.Items[0].ID + "?ask=redrive")
	b.until(`document.querySelector("#dialog:modal") !== null`)
	edited := strings.Replace(body, "both", "edited", 1)
	b.fill("body", edited)
	b.yes()
	b.until(says("#notice", "Redrove the message with another body."))
	back, err := w.admin.Peek(t.Context(), "main", "jobs", "", "", 2)
	if err != nil || len(back.Items) != 1 || string(back.Items[0].Body) != edited || back.Items[0].Format != "text" {
		t.Fatalf("%+v, %v", back, err)
	}

	// Without scripts, a form sends each line feed as two characters; what arrives is what was typed.
	v := w.visitor()
	v.signIn(w.token("bob", "", access.Deploy), "/")
	v.ask(http.MethodPost, "/databases/main/queues/jobs/messages/send", url.Values{"body": {"one\r\ntwo"}, "type": {"text"}})
	if sent, err := w.admin.Search(t.Context(), "main", "jobs", `"two"`, "", 2); err != nil || len(sent.Items) != 1 || string(sent.Items[0].Body) != `"one\ntwo"` {
		t.Errorf("%+v, %v", sent, err)
	}
}

// TestAnOperationIsCancelled: what was done stays done, and can be undone.
func TestAnOperationIsCancelled(t *testing.T) {
	w := newWorld(t)
	w.deploy("crawler", "first", [2]string{"jobs", "jobs-dead"})
	w.send("jobs", 30, 0)
	w.kill(30)
	b := w.open()
	const base = "/databases/main/queues/jobs-dead/messages"
	b.signIn(w.token("ada", "", access.Admin), base)
	b.until(`document.querySelectorAll("table.messages tbody tr").length === 30`)
	b.ask("redrive")
	b.fill("rate", "1")
	b.yes()
	b.until(`document.querySelector("#background").innerText.includes("running") && document.querySelector("#background form button") !== null`)
	b.until(`document.querySelectorAll("#undo li").length === 1`)
	b.do(chromedp.Focus(chromedp.CSS(`#background form button`)), chromedp.KeyEvent(kb.Enter))
	b.until(says("#notice", "Cancelled operation 1. What was done stays done."))
	b.until(`document.querySelector("#background").innerText.includes("cancelled") && document.querySelector("#background form") === null`)
	o, err := w.admin.Operation(t.Context(), 1)
	if err != nil || o.State != "cancelled" || o.Done < 1 || o.Done > 29 {
		t.Fatalf("%+v, %v", o, err)
	}
	eval[bool](b, `(document.querySelector("#undo li button[type=submit]").click(), true)`)
	b.until(`document.querySelectorAll("table.messages tbody tr").length === 30 && document.querySelectorAll("#undo li").length === 0`)
}
