package cloudflare_test

import (
	"testing"

	"github.com/runlot/runlot/client"
)

// TestWranglerQueues: every command of wrangler about queues, and what it comes to.
func TestWranglerQueues(t *testing.T) {
	t.Parallel()
	h := open(t, "shop")
	ctx := t.Context()
	h.wrangler("queues create jobs --delivery-delay-secs 5 --message-retention-period-secs 3600", "Created queue 'jobs'")
	q, err := h.Queue(ctx, "default", "jobs")
	if err != nil {
		t.Fatal(err)
	}
	count(t, "retention", q.RetentionSeconds, 3600)
	h.refused("queues create jobs", "11009")
	h.wrangler("queues create dead")
	h.wrangler("queues list", "jobs", "dead")
	h.wrangler("queues update jobs --message-retention-period-secs 7200", "Updated queue jobs")
	h.wrangler("queues pause-delivery jobs", "Paused message delivery for queue jobs")
	if q, err = h.Queue(ctx, "default", "jobs"); err != nil {
		t.Fatal(err)
	}
	count(t, "retention", q.RetentionSeconds, 7200)
	count(t, "paused", q.PausedSince != nil, true)
	h.wrangler("queues resume-delivery jobs", "Resumed message delivery for queue jobs")

	// A consumer over HTTP, and one that is a script.
	h.wrangler("queues consumer http add jobs --batch-size 7 --message-retries 2 --visibility-timeout-secs 60 --dead-letter-queue dead", "Added consumer to queue jobs")
	h.wrangler("queues info jobs", "HTTP Pull Consumer")
	h.wrangler("queues consumer http remove jobs", "Removed consumer from queue jobs")
	u, err := h.Upload(ctx, &client.Upload{
		App: "shop", ConfigFile: "wrangler.json", Config: []byte(`{"name": "shop", "main": "a.js", "compatibility_date": "2026-04-01"}`),
		Modules: []client.Module{{Name: "main.mjs", Kind: "esModule", Body: []byte(`export default { queue() {}, fetch() { return new Response("shop"); } }`)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Deploy(ctx, "shop", &client.Deploy{Version: u.Version.ID}); err != nil {
		t.Fatal(err)
	}
	h.wrangler("queues consumer add jobs shop --batch-size 7 --message-retries 2 --dead-letter-queue dead", "Added consumer to queue jobs")
	h.refused("queues consumer http add jobs", "the script shop", "11004")
	if live, _ := h.live(); len(live.Consumers) != 1 || live.Consumers[0].DeadLetterQueue != "dead" {
		t.Errorf("consumers of the live version: %+v", live.Consumers)
	}
	h.wrangler("queues consumer remove jobs shop", "Removed consumer from queue jobs")

	if _, err := h.Send(ctx, "default", "jobs", []client.Draft{{Body: []byte(`"gone"`)}}); err != nil {
		t.Fatal(err)
	}
	h.wrangler("queues purge jobs --force", "Purged Queue 'jobs'")
	h.empty("jobs")
	h.wrangler("queues consumer add jobs shop --dead-letter-queue dead", "Added consumer to queue jobs")
	h.refused("queues delete jobs", "shop consumes it", "10064")
	h.refused("queues delete dead", "shop leaves the dead letters of jobs there", "10064")
	h.wrangler("queues consumer remove jobs shop", "Removed consumer from queue jobs")
	if _, err := h.Send(ctx, "default", "jobs", []client.Draft{{Body: []byte(`"of the old queue"`)}}); err != nil {
		t.Fatal(err)
	}
	h.wrangler("queues delete jobs", "Deleted queue jobs")
	h.refused("queues info jobs", "jobs", "does not exist")
	h.wrangler("queues create jobs", "Created queue 'jobs'")
	if q, err = h.Queue(ctx, "default", "jobs"); err != nil {
		t.Fatal(err)
	}
	count(t, "messages of the queue made anew", q.Unsettled, 0)
	count(t, "its retention", q.RetentionSeconds, 4*24*3600)
}

// TestWranglerStores: KV, R2 and Durable Objects with their migrations come with an upload, and so do modules of text.
func TestWranglerStores(t *testing.T) {
	t.Parallel()
	h := open(t, "stores")
	h.wrangler("deploy", "env.KV", "env.FILES", "env.COUNTER", "Current Version ID")
	has(t, "the app", h.ask("/"), `{"n":1,"kv":"1","r2":"1","text":"a note"}`)
	// Behind the migration, only what is new is sent; what is stored stays.
	h.edit("src/note.txt", "a note", "another")
	h.wrangler("deploy", "Current Version ID")
	has(t, "the app", h.ask("/"), `{"n":2,"kv":"2","r2":"2","text":"another"}`)
	h.edit("wrangler.jsonc", `["Counter"] }]`, `["Counter"] }, { "tag": "v2", "new_sqlite_classes": ["Other"] }]`)
	h.edit("src/index.ts", "export default {", "export class Other extends DurableObject<Env> {}\n\nexport default {")
	h.wrangler("deploy", "Current Version ID")
	has(t, "the app", h.ask("/"), `"n":3`)
	h.wrangler("delete --force", "Successfully deleted shop")
}
