package browser

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/broker/settings"
)

func TestSettingsOfAQueue(t *testing.T) {
	w := newWorld(t)
	w.deploy("crawler", "first", [2]string{"jobs", "jobs-dead"})
	b := w.open()
	b.signIn(w.token("ada", "", access.Admin), "/databases/main/queues/jobs")
	setting := func(name string) string {
		return `([...document.querySelectorAll("table.settings tbody tr")].find((row) => row.cells[0].innerText === ` + quoted(name) + `)?.innerText.replace(/\s+/g, " ").trim() ?? "")`
	}
	for name, want := range map[string]string{
		"Consumer": "Consumer the handler queue() of crawler the live version of crawler", "Retries": "Retries up to 3 the live version of crawler",
		"Dead-letter queue": "Dead-letter queue jobs-dead the live version of crawler", "Messages are kept": "Messages are kept 4 days the live version of crawler", "Delivery": "",
	} {
		if got := eval[string](b, setting(name)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	// What an operator changes is marked by itself, with the way back.
	if err := w.admin.SetRetention(t.Context(), "main", "jobs", 2*time.Hour); err != nil {
		t.Fatal(err)
	}
	b.until(setting("Messages are kept") + `.includes("2 hours an operator")`)
	if got := eval[string](b, setting("Messages are kept")); !strings.Contains(got, "runlot queue retention jobs default --database main") {
		t.Errorf("the way back is not in %q", got)
	}
	if err := w.admin.Pause(t.Context(), "main", "jobs"); err != nil {
		t.Fatal(err)
	}
	b.until(setting("Delivery") + `.includes("paused since")`)
	// The queues lead to each other.
	eval[bool](b, `([...document.querySelectorAll("table.settings a")].find((a) => a.innerText === "jobs-dead").click(), true)`)
	b.until(`location.pathname === "/databases/main/queues/jobs-dead" && ` + says("#settings", "Here go the dead letters of jobs."))
	b.do(chromedp.Click(chromedp.CSS("#settings p a")))
	b.until(`location.pathname === "/databases/main/queues/jobs"`)

	// Whoever only looks is offered no command that changes something.
	wall := w.open()
	wall.signIn(w.token("wall", "", access.Read), "/databases/main/queues/jobs")
	if n := eval[int](wall, `document.querySelectorAll("#settings tr.is-override").length * 10 + document.querySelectorAll("#settings .command").length`); n != 20 {
		t.Errorf("%d overrides and commands", n)
	}
	wall.visit("/apps/crawler")
	wall.until(says("#usage", "operations today") + ` && document.querySelector("#usage progress") !== null`)
}

// TestAQueueThatIsDrainedOverHTTP has no app behind its consumer.
func TestAQueueThatIsDrainedOverHTTP(t *testing.T) {
	w := newWorld(t)
	w.deploy("crawler", "first", [2]string{"jobs", "jobs-dead"})
	pull := settings.Pull{BatchSize: 10, Visibility: time.Minute, MaxRetries: 3, DeadLetterQueue: "jobs"}
	if err := w.queues.db.Broker.SetPull(t.Context(), "jobs-dead", &pull); err != nil {
		t.Fatal(err)
	}
	b := w.open()
	b.signIn(w.token("ada", "", access.Admin), "/databases/main/queues/jobs-dead")
	for _, path := range []string{"/databases/main/queues/jobs-dead", "/queues"} {
		b.visit(path)
		b.until(says("main", "over HTTP"))
		if n := eval[int](b, `document.querySelectorAll('a[href^="/apps//"]').length`); n != 0 {
			t.Errorf("%s leads to no app's page %d times", path, n)
		}
	}
}
