package cloudflare_test

import "testing"

// TestQueuesBetweenScripts: the names of queues mean the same in every script, a queue has one consumer among all of them, and
// both sides of a conflict are named.
func TestQueuesBetweenScripts(t *testing.T) {
	t.Parallel()
	h := open(t, "pair")
	h.wrangler("queues create jobs")
	h.wrangler("deploy -c out/wrangler.jsonc", "Producer for jobs")
	h.wrangler("deploy -c in/wrangler.jsonc", "Consumer for jobs")
	count(t, "sent", h.askOf("out", "/?job=one"), "sent")
	h.until("/", `{"names":["DONE"],"done":["one"]}`)
	h.refused("deploy -c thief/wrangler.jsonc", "the script shop", "thief cannot consume it too", "11004")
	h.wrangler("queues info jobs", "worker:out, worker:thief", "worker:shop")
	count(t, "sent", h.askOf("out", "/?job=two"), "sent")
	h.until("/", `{"names":["DONE"],"done":["one","two"]}`)
	// What a script has in use stays until the script gives it up.
	h.refused("queues delete jobs-dead", "shop leaves the dead letters of jobs there")
	h.wrangler("queues consumer remove jobs shop", "Removed consumer from queue jobs")
	h.wrangler("queues delete jobs-dead", "Deleted queue jobs-dead")
	h.wrangler("queues consumer add jobs thief", "Added consumer to queue jobs")
	h.wrangler("queues info jobs", "worker:thief")
}
