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
	h.wrangler("queues create changes")
	h.wrangler("deploy", "env.KV", "env.FILES", "Current Version ID")
	wranglerKV(h)
	wranglerR2(h)
	out, err := h.node("", filepath.Join(tools, "data.mjs"))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	has(t, "data.mjs", out, "kv\n", "r2\n")
	has(t, "the Worker", h.ask("/kv/get?key=a%2Fsdk"), `{"value":"from the SDK","metadata":{"n":1},"cacheStatus":null}`)
	has(t, "the Worker", h.ask("/r2/get?key=a%2Fsdk%3F"), `{"body":"from the SDK","http":{"contentType":"application/octet-stream"}}`)
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
	h.wrangler("kv key list --binding KV --remote --prefix a", `"name": "a/b"`, `"expiration": `, `"n": 7`)
	h.wrangler("kv key delete --binding KV --remote a/b", "Deleting the key")
	h.wrangler("kv bulk put pairs.json --binding KV --remote", "Success!")
	h.wrangler("kv bulk get keys.json --binding KV --remote", `"bulk/1"`, `"one"`, "null")
	has(t, "the Worker", h.ask("/kv/list"), `[["bulk/1",false,{"n":1}],["bulk/2",true,null],["w",false,{"by":"worker"}],["é ?",false,null]]`)
	h.wrangler("kv bulk delete keys.json --binding KV --remote --force", "Success!")
	has(t, "the Worker", h.ask("/kv/list"), `[["w",false,{"by":"worker"}],["é ?",false,null]]`)
}

func wranglerR2(h *house) {
	t := h.t
	t.Helper()
	h.wrangler("r2 bucket create images", "Created bucket 'images'")
	h.wrangler("r2 bucket list", "images", "files", "creation_date")
	h.refused("r2 bucket delete files", "shop.FILES")

	h.wrangler("r2 bucket notification create files --queue changes --event-type object-create object-delete --prefix in/ --suffix .txt", "Event notification rule created successfully")
	rule := regexp.MustCompile(`rule_id: +(\S+)`).FindStringSubmatch(h.wrangler("r2 bucket notification list files", "changes", "in/", ".txt", "PutObject,CompleteMultipartUpload,CopyObject,DeleteObject,LifecycleDeletion"))
	if rule == nil {
		t.Fatal("list prints no id")
	}
	if err := os.WriteFile(filepath.Join(h.dir, "object.txt"), []byte("from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.wrangler("r2 object put files/in/a/é.txt --file object.txt --content-type text/x-file --cache-control no-cache --remote", "Upload complete")
	has(t, "the Worker", h.ask("/r2/get?key=in%2Fa%2F%C3%A9.txt"), `{"body":"from a file","http":{"contentType":"text/x-file","cacheControl":"no-cache"}}`)
	h.until("/kv/get?key=told%2Fin%2Fa%2F%C3%A9.txt", `"PutObject files 11"`)
	h.wranglerWith("from a pipe", "r2 object put images/p --pipe --remote", "Upload complete")
	h.wrangler("r2 object get images/p --pipe --remote", "from a pipe")
	h.refused("r2 object put nowhere/p --file object.txt --remote", "The specified bucket does not exist")
	has(t, "the Worker", h.ask("/r2/put?key=w%2F%2Fx&value=of+the+Worker"), "put")
	h.wrangler("r2 object get files/w//x --file got.txt --remote", "Download complete")
	if got, err := os.ReadFile(filepath.Join(h.dir, "got.txt")); err != nil || string(got) != "of the Worker" {
		t.Errorf("%s %v", got, err)
	}
	h.wrangler("r2 object delete files/in/a/é.txt --remote", "Delete complete")
	h.until("/kv/get?key=told%2Fin%2Fa%2F%C3%A9.txt", `"DeleteObject files gone"`)
	h.wrangler("r2 bulk put files --filename entries.json --remote")
	has(t, "the Worker", h.ask("/r2/list"), `["bulk/1.txt","bulk/2.txt","w//x"]`)
	h.wrangler("r2 bucket info files", "object_count:           3", "Standard")

	h.wrangler("r2 bucket notification delete files --queue changes --rule "+rule[1], "deleted successfully")
	h.refused("r2 bucket delete images", "10008")
	h.wrangler("r2 object delete images/p --remote", "Delete complete")
	h.wrangler("r2 bucket delete images", "Deleted bucket images")
	h.refused("r2 bucket cors list files", "7003")
}
