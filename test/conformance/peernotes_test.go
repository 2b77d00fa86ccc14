package conformance_test

import (
	"slices"
	"strings"
	"testing"
)

// What no peer can run.
var (
	ownDialect = peerNote{"runlot-* limit-message-runlot limit-batch-runlot settle-error handler-time", "the case is about `runlot.json`, which only Runlot reads"}
	ownStore   = peerNote{"sql-* database-* record cap-* send-commit send-calls send-stalled settle-matrix", "the case needs SQL on the messages, or a bound of their database; the store of a peer is closed"}
	ownHost    = peerNote{"loss-* share-* outbound-*", "the case kills or replaces processes, or is about the addresses that `celld` allows; a peer is one process without a host"}
	ownRecords = peerNote{"settle-wait-until settle-nowait*", "the end of a batch cannot be seen from outside"}
	ownFixture = peerNote{"form-named dead-formats", "the case has a fixture of its own, which is not run there"}
	ownOthers  = peerNote{"d1-* kv-* r2-* objects-* cron-*", "the declarations of queues are translated for a peer, those of D1 databases, KV namespaces, R2 buckets, Durable Objects and crons are not"}
)

// What no peer decides as we do.
var (
	bytesAreBuffers = peerNote{
		"types-bytes", "the handler gets an `ArrayBuffer`. Runlot gives it a `Uint8Array`, as workerd's own decoding of a message from Cloudflare's queue does",
	}
	undefinedIsSent = peerNote{
		"limit-body", "a function or a symbol sent as JSON is accepted, and what is stored is no JSON. Runlot refuses it, because no handler could ever decode it",
	}
	delaysAreFree = peerNote{"limit-delay limit-batch-delay", "a delay above 86,400 s or below 0 is accepted. Cloudflare's documentation gives the range and the codes 10202 and 10203"}
)

var workerdSkips = []peerNote{
	ownDialect, ownStore, ownHost, ownOthers, ownRecords, ownFixture,
	{"serial three most-together automatic metrics-batch dead-cycle", "the case holds handlers at a server of the test, and these Workers reach public addresses only"},
}

var workerdDiffers = []peerNote{
	bytesAreBuffers, undefinedIsSent, delaysAreFree,
	{
		"limit-message limit-bytes limit-batch", "what is too large is refused, but every error reads `Unknown Internal Error (15000)`; " +
			"a message's own delay out of range is accepted. Runlot's errors have the texts and codes of Cloudflare's documentation",
	},
	{
		"send-binding-delay", "`delivery_delay` of a producer is an unknown key, so the case runs without it. On Cloudflare it has had no effect since 2025; " +
			"Runlot keeps it, because the celld document promises it",
	},
	{"form-service-worker", "the bindings of a service worker are no globals, so that it cannot send"},
}

var miniflareSkips = []peerNote{
	ownDialect, ownStore, ownHost, ownOthers, ownRecords, ownFixture,
	{"form-service-worker", "what a service worker logs does not reach the output of the process"},
}

var miniflareDiffers = []peerNote{
	bytesAreBuffers, undefinedIsSent, delaysAreFree,
	{"limit-message limit-bytes limit-batch", "sizes and counts over the limits of Cloudflare are accepted"},
	{"settle-ack-throw settle-ack-all settle-ack-retry-all", "acks are not read when a handler throws or calls `retryAll`: the whole batch comes again"},
	{"dead", "without `max_retries` a message has two retries; Cloudflare's documentation gives three"},
	{"three most-together automatic", "a queue runs one batch at a time, whatever `max_concurrency` says"},
	{"metrics metrics-batch", "a message is not counted in the answer to its own send, delayed messages never are, and a batch is told nothing"},
}

func TestVisible(t *testing.T) {
	got := visible([]string{"failed a1 b1 → acked 1 retried 1", "dead-letters: ok a1 → acked 1", "left b attempts 1 in 5s"})
	if want := []string{"a1 b1", "dead-letters: a1"}; !slices.Equal(got, want) {
		t.Errorf("visible: %q, want %q", got, want)
	}
}

// TestPeerNotes wants every note to be about cases that exist, and none about two things.
func TestPeerNotes(t *testing.T) {
	all := cases()
	for _, p := range peers("") {
		seen := map[string]string{}
		for _, note := range slices.Concat(p.skips, p.differs) {
			for pattern := range strings.FieldsSeq(note.cases) {
				found := false
				for i := range all {
					if !names(pattern, all[i].id) {
						continue
					}
					found = true
					if seen[all[i].id] != "" {
						t.Errorf("%s: two notes about %s: %q, %q", p.name, all[i].id, seen[all[i].id], note.why)
					}
					seen[all[i].id] = note.why
				}
				if !found {
					t.Errorf("%s: a note about %q, which is no case", p.name, pattern)
				}
			}
		}
	}
}
