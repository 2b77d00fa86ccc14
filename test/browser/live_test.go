package browser

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/runlot/runlot/internal/engine/access"
)

// TestTheListOfMessagesFollows: what is sent appears, and nothing moves while messages are ticked.
func TestTheListOfMessagesFollows(t *testing.T) {
	w := newWorld(t)
	w.deploy("crawler", "first", [2]string{"jobs", "jobs-dead"})
	b := w.open()
	b.signIn(w.token("ada", "", access.Admin), "/databases/main/queues/jobs/messages")
	const rows = `document.querySelectorAll("#message-rows > tr").length`
	const ticked = `document.querySelectorAll('#found [name="id"]:checked').length`
	const held = `document.querySelector("#found .held").checkVisibility()`
	all := func(n string) string {
		return `document.querySelector("#states a").innerText === ` + quoted("all "+n)
	}
	b.until(says("#found", "jobs is empty") + " && " + all("0"))
	w.send("jobs", 2, 3600)
	b.until(rows + ` === 2 && !` + held)

	b.do(chromedp.Click(chromedp.CSS(`#message-rows [name="id"]`)))
	b.until(held)
	w.send("jobs", 1, 3600)
	b.until(all("3"))
	if n := eval[int](b, rows+` * 10 + `+ticked); n != 21 {
		t.Errorf("rows and ticks are %d while one is ticked", n)
	}
	b.do(chromedp.Click(chromedp.CSS(`#message-rows [name="id"]`)))
	b.until(rows + ` === 3 && ` + ticked + ` === 0 && !` + held)

	// A dialog that is left leaves the ticks; what is unticked then stays so, although the address had it.
	const every = `#found [data-all]`
	b.do(chromedp.Click(chromedp.CSS(every)))
	b.until(ticked + ` === 3`)
	eval[bool](b, `(document.querySelector('.chosen button[value="delete"]').click(), true)`)
	b.until(`document.querySelector("#dialog:modal") !== null`)
	if got := b.text("#dialog-title"); got != "Delete 3 messages?" {
		t.Errorf("the dialog asks %q", got)
	}
	eval[bool](b, `(document.querySelector("#dialog a.button").click(), true)`)
	b.until(`document.querySelector("#dialog") === null && ` + ticked + ` === 3 && location.search.includes("id=")`)
	eval[bool](b, `([...document.querySelectorAll('#found [name="id"]')].forEach((box) => { if (box.checked) box.click(); }), true)`)
	w.send("jobs", 1, 3600)
	b.until(rows + ` === 4`)
	if n := eval[int](b, ticked); n != 0 {
		t.Errorf("%d are ticked again", n)
	}

	// What was done to the ticked ones is done, and nothing is ticked.
	b.do(chromedp.Click(chromedp.CSS(every)))
	eval[bool](b, `(document.querySelector('.chosen button[value="retry"]').click(), true)`)
	b.until(`document.querySelector("#dialog:modal") !== null`)
	b.yes()
	b.until(says("#notice", "Hurried 4 messages") + ` && ` + ticked + ` === 0`)
	b.until(`[...document.querySelectorAll("#message-rows [data-label=State]")].every((cell) => cell.innerText === "visible")`)
	eval[bool](b, `([...document.querySelectorAll("#states a")].find((a) => a.innerText.startsWith("delayed")).click(), true)`)
	b.until(`location.search === "?filter=state%3Adelayed" && ` + rows + ` === 0 && ` + says("#states [aria-current]", "delayed 0"))
	w.send("jobs", 1, 3600)
	b.until(rows + ` === 1`)
}
