package browser

import (
	"strings"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/ledger"
)

// TestSettledMessagesOnThePage: those that left a queue are listed with how, and open to their batch.
func TestSettledMessagesOnThePage(t *testing.T) {
	w := newWorld(t)
	w.deploy("crawler", "first", [2]string{"jobs", "jobs-dead"})
	w.queues.db.Records.Batch(&ledger.Record{
		ID: ledger.ID{Queue: "jobs"}, App: "crawler", Version: "v1", Delivery: "d", Start: time.Now(), Duration: time.Second, Outcome: queue.Failed,
		Delivered: 2, Acked: 1, Dead: 1, Error: &ledger.Exception{Name: "TypeError", Message: "no url", Location: "src/index.ts:3:9"},
		Acks:  []queue.Acked{{ID: queue.NewID(7, 1<<60), Attempt: 2}},
		Fates: []ledger.Fate{{ID: queue.NewID(7, 1<<60+1), Kind: ledger.Dead, Attempt: 4}},
	})
	b := w.open()
	const base = "/databases/main/queues/jobs"
	b.signIn(w.token("ada", "", access.Admin), base+"/messages")
	b.until(`document.querySelector("#states") !== null`)
	eval[bool](b, `([...document.querySelectorAll("#states a")].at(-1).click(), true)`)
	b.until(`document.querySelectorAll("#message-rows tr").length === 2 && document.querySelectorAll("input[name=id]").length === 0`)
	rows := b.text("#message-rows")
	for _, want := range []string{"acked", "dead", "TypeError: no url (src/index.ts:3:9)", "in batch jobs."} {
		if !strings.Contains(rows, want) {
			t.Errorf("%q is not in the list: %s", want, rows)
		}
	}
	eval[bool](b, `(document.querySelector("table.messages a.name").click(), true)`)
	b.until(`document.querySelector("h1.mono") !== null && document.querySelector("main").innerText.includes("is not kept when it leaves its queue")`)
	eval[bool](b, `(document.querySelector("dl.facts a").click(), true)`)
	b.until(`document.querySelector("#batches tbody.is-open") !== null`)
	if got := b.text("#batches tbody.is-open"); !strings.Contains(got, "1 message acked") {
		t.Errorf("the batch is %s", got)
	}
}
