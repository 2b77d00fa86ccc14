package browser

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
)

// TestASearchShowsWhatItHas: what is found in a moment is there at once, and the rest comes in its place.
func TestASearchShowsWhatItHas(t *testing.T) {
	w := newWorld(t)
	w.deploy("crawler", "first", [2]string{"jobs", "jobs-dead"})
	const all = 30_000
	for sent := 0; sent < all; {
		drafts := make([]queue.Draft, 100)
		for i := range drafts {
			drafts[i] = queue.Draft{Format: queue.JSON, Body: fmt.Appendf(nil, `{"n":%d}`, sent)}
			sent++
		}
		if _, err := w.queues.db.Broker.Send(t.Context(), "jobs", drafts); err != nil {
			t.Fatal(err)
		}
	}
	const base = "/databases/main/queues/jobs/messages?filter="
	filter := fmt.Sprintf("body.n:%d", all/2)
	v := w.visitor()
	v.signIn(w.token("bob", "", access.Read), "/")
	if _, text := v.ask(http.MethodGet, base+filter+"&effort=full", nil); !strings.Contains(text, "1\u00a0message matches.") || strings.Contains(text, "Look further") {
		t.Errorf("a search that takes its time: %s", text)
	}
	b := w.open()
	b.signIn(w.token("ada", "", access.Admin), base+filter)
	b.until(`document.querySelectorAll("table.messages tbody tr").length === 1 && !document.querySelector("#counted").hasAttribute("data-more")`)
	if got := b.text("#counted"); !strings.HasPrefix(got, "1 message matches.") {
		t.Errorf("it says %q", got)
	}
	if address := eval[string](b, `location.search + document.querySelector("#states").innerHTML + document.querySelector(".asks").innerHTML`); strings.Contains(address, "effort") {
		t.Errorf("an address of the view asks for more effort: %s", address)
	}
	// In the middle of it, another search takes its place.
	eval[bool](b, `(document.querySelector("#find").value = "body.n<3", document.querySelector("form[role=search]").requestSubmit(), true)`)
	b.until(`document.querySelectorAll("table.messages tbody tr").length === 3 && document.querySelector("#counted").innerText.startsWith("3\u00a0messages match.")`)
}
