package cloudflare_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestWranglerData: what wrangler and the npm package write is what the bindings of a Worker see, and the other way round.
func TestWranglerData(t *testing.T) {
	t.Parallel()
	h := open(t, "data")
	h.wrangler("deploy", "env.KV", "Current Version ID")
	wranglerKV(h)
	out, err := h.node("", filepath.Join(tools, "data.mjs"))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	has(t, "data.mjs", out, "kv\n")
	has(t, "the Worker", h.ask("/kv/get?key=a%2Fsdk"), `{"value":"from the SDK","metadata":{"n":1},"cacheStatus":null}`)
}

func wranglerKV(h *house) {
	t := h.t
	t.Helper()
	made := regexp.MustCompile(`"id": "([0-9a-f]{32})"`).FindStringSubmatch(h.wrangler("kv namespace create users", "with title", "users"))
	if made == nil {
		t.Fatal("create prints no id")
	}
	h.refused("kv namespace create users", "already exists")
	h.wrangler("kv namespace rename users --new-name people", "people")
	h.wrangler("kv namespace list", `"title": "people"`, `"id": "cache"`)
	h.refused("kv namespace delete --namespace-id cache", "shop.KV")
	h.wrangler("kv namespace delete --namespace-id "+made[1]+" --skip-confirmation", "Deleted KV namespace")

	h.wrangler(`kv key put --binding KV --remote a/b 'a value' --ttl 3600 --metadata '{"n":7}'`, "Writing the value")
	has(t, "the Worker", h.ask("/kv/get?key=a%2Fb"), `{"value":"a value","metadata":{"n":7},"cacheStatus":null}`)
	if err := os.WriteFile(filepath.Join(h.dir, "value.bin"), []byte("from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.wrangler("kv key put --binding KV --remote 'é ?' --path value.bin", "Writing the contents of value.bin")
	has(t, "the Worker", h.ask("/kv/get?key=%C3%A9%20%3F"), `"value":"from a file"`)
	has(t, "the Worker", h.ask("/kv/put?key=w&value=of+the+Worker"), "put")
	h.wrangler("kv key get --binding KV --remote w --text", "of the Worker")
	h.refused("kv key get --binding KV --remote none --text", "404")
	h.wrangler("kv key list --binding KV --remote --prefix a", `"name": "a/b"`, `"expiration": `, `"n": 7`)
	h.wrangler("kv key delete --binding KV --remote a/b", "Deleting the key")
	h.wrangler("kv bulk put pairs.json --binding KV --remote", "Success!")
	h.wrangler("kv bulk get keys.json --binding KV --remote", `"bulk/1"`, `"one"`, "null")
	has(t, "the Worker", h.ask("/kv/list"), `[["bulk/1",false,{"n":1}],["bulk/2",true,null],["w",false,{"by":"worker"}],["é ?",false,null]]`)
	h.wrangler("kv bulk delete keys.json --binding KV --remote --force", "Success!")
	has(t, "the Worker", h.ask("/kv/list"), `[["w",false,{"by":"worker"}],["é ?",false,null]]`)
}
