package browser

import (
	"strings"
	"testing"

	"github.com/runlot/runlot/internal/engine/access"
)

// fill types into a field of the dialog.
func (b *tab) fill(name, value string) {
	b.t.Helper()
	eval[bool](b, `((f) => { f.value = `+quoted(value)+`; f.dispatchEvent(new Event("input", { bubbles: true })); return true })(document.querySelector("#dialog [name=`+name+`]"))`)
}

// TestDialogsSayWhatWillHappen holds what a dialog says against what is done: how many messages, and the command.
func TestDialogsSayWhatWillHappen(t *testing.T) {
	w := newWorld(t)
	w.deploy("crawler", "first", [2]string{"jobs", "jobs-dead"}, [2]string{"mail", ""})
	w.send("jobs", 3, 3600)
	w.send("jobs", 2, 0)
	w.lease("jobs", 1)
	b := w.open()
	const base = "/databases/main/queues/jobs"
	b.signIn(w.token("ada", "", access.Admin), base+"/messages")
	command := func(want string) {
		t.Helper()
		if got := b.text("#dialog .command code"); got != want {
			t.Errorf("the command is %q, want %q", got, want)
		}
	}
	text := func(want ...string) {
		t.Helper()
		for _, one := range want {
			if got := b.text("#dialog-text"); !strings.Contains(got, one) {
				t.Errorf("%q is not in %q", one, got)
			}
		}
	}

	// A purge takes what is in flight too, and says so.
	b.ask("purge")
	text("It holds 5 messages", "in flight (1) finish, and they are not delivered again")
	command("runlot queue purge jobs --database main")

	// Only what is delayed can be retried sooner; the command line has no other way to name all of it.
	b.visit(base + "/messages?ask=retry")
	text("3 messages that are delayed")
	command("runlot queue retry jobs --filter state:delayed --database main")
	b.yes()
	b.until(`document.querySelector("#background").innerText.includes("3\u00a0messages of 3")`)

	b.visit(base + "/messages?filter=state:visible&ask=delete")
	text("4 messages that match")
	command("runlot queue delete jobs --filter state:visible --database main")

	// The command follows what is typed, and its words are those of a shell.
	b.visit(base + "/messages?ask=send")
	command("runlot queue send jobs --database main '{}'")
	b.fill("body", `{"who": "it's me"}`)
	b.fill("delay", "90")
	command(`runlot queue send jobs --database main --delay 90s '{"who": "it'\''s me"}'`)
	b.fill("type", "text")
	b.fill("delay", "0")
	b.fill("body", "\nhi")
	command("runlot queue send jobs --database main --text ' hi'")
	b.yes()
	b.until(says("#notice", "Sent a message"))

	// What is chosen goes to another queue, and what is mended too; a text keeps the line feed that it begins with.
	w.kill(5)
	b.visit(base + "-dead/messages?filter=%22hi%22")
	b.until(`document.querySelectorAll("table.messages tbody tr").length === 1`)
	eval[bool](b, `(document.querySelector("table.messages a.name").click(), true)`)
	b.until(`document.querySelector("h1.mono") !== null`)
	b.ask("redrive")
	if got := eval[string](b, `document.querySelector("#dialog textarea").value`); got != "\nhi" {
		t.Errorf("the body to be mended is %q", got)
	}
	b.fill("to", "jobs")
	b.yes()
	b.until(says("#notice", "Redrove 1 message."))
	b.visit(base + "-dead/messages")
	b.until(`document.querySelectorAll("table.messages tbody tr").length === 4`)
	eval[bool](b, `([...document.querySelectorAll("input[name=id]")].slice(0, 2).forEach((box) => { box.checked = true; }), document.querySelector('.chosen button[value="redrive"]').click(), true)`)
	b.until(`document.querySelector("#dialog:modal") !== null`)
	b.fill("to", "mail")
	b.fill("rate", "500")
	if got := b.text("#dialog .command code"); !strings.HasSuffix(got, " --database main --to mail --rate 500") || !strings.HasPrefix(got, "runlot queue redrive jobs-dead --ids ") {
		t.Errorf("the command is %q", got)
	}
	b.yes()
	b.until(says("#notice", "Redrove 2 messages."))
	if q, err := w.admin.Queue(t.Context(), "main", "mail"); err != nil || q.Unsettled != 2 {
		t.Errorf("%+v, %v", q, err)
	}
}
