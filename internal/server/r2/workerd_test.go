package r2

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/s3"
	"github.com/runlot/runlot/internal/adapter/s3/s3test"
	"github.com/runlot/runlot/internal/adapter/sqlite/r2"
	"github.com/runlot/runlot/internal/adapter/workerd/workerdtest"
	"github.com/runlot/runlot/internal/core/app"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(cleaning{m}) }

type cleaning struct{ *testing.M }

func (c cleaning) Run() int {
	defer s3test.Remove()
	return c.M.Run()
}

// script runs the code of a request's path with the bucket and answers with what it returns, or throws.
const script = `
const hex = (b) => b && [...new Uint8Array(b)].map((x) => x.toString(16).padStart(2, "0")).join("");
const about = (o) => o && { key: o.key, size: o.size, etag: o.httpEtag, version: o.version.length, uploaded: Math.abs(Date.now() - o.uploaded) < 600000,
  http: o.httpMetadata, custom: o.customMetadata, range: o.range, md5: hex(o.checksums.md5), sha1: hex(o.checksums.sha1), body: "body" in o };
const names = (l) => [l.objects.map((o) => o.key), l.delimitedPrefixes, l.truncated, typeof l.cursor];
const text = async (p) => { const o = await p; return o && [await o.text(), o.range]; };
let upload, etags = [], first;
const mib = (n, fill) => new Uint8Array(n << 20).fill(fill);
const calls = {
%s
};
export default {
  async fetch(request, env) {
    try { return new Response(JSON.stringify(await calls[new URL(request.url).pathname.slice(1)](env.R2, env)) ?? "undefined"); }
    catch (e) { return new Response(e.name + ": " + e.message); }
  },
};`

const md5OfText = "1cb251ec0d568de6a929b520c4aed8d1"

// calls are made one after the other on one bucket; each is JavaScript and what it answers with.
var calls = [][2]string{
	{`r2.head("none")`, "null"},
	{`r2.get("none")`, "null"},
	{`r2.put("a/1", "text").then(about)`, `{"key":"a/1","size":4,"etag":"\"` + md5OfText + `\"","version":26,"uploaded":true,"http":{},"custom":{},"md5":"` + md5OfText + `","body":false}`},
	{`r2.get("a/1").then((o) => o.text())`, `"text"`},
	{`r2.head("a/1").then(about)`, `{"key":"a/1","size":4,"etag":"\"` + md5OfText + `\"","version":26,"uploaded":true,"http":{},"custom":{},"md5":"` + md5OfText + `","body":false}`},
	{
		`r2.put("ä ?%/\u0001", "x", { httpMetadata: { contentType: "text/plain", cacheExpiry: new Date(1e12) }, customMetadata: { "k\"": "vé" }, sha1: "11f6ad8ec52a2984abaafd7c3b516503785c2072" }).then(about)`,
		`{"key":"ä ?%/\u0001","size":1,"etag":"\"9dd4e461268c8034f5c8564e155c67a6\"","version":26,"uploaded":true,"http":{"contentType":"text/plain","cacheExpiry":"2001-09-09T01:46:40.000Z"},"custom":{"k\"":"vé"},"md5":"9dd4e461268c8034f5c8564e155c67a6","sha1":"11f6ad8ec52a2984abaafd7c3b516503785c2072","body":false}`,
	},
	{`r2.put("b", "x", { md5: "9dd4e461268c8034f5c8564e155c67a7" })`, "Error: put: The MD5 checksum you specified did not match what we received. You provided a MD5 checksum with value: 9dd4e461268c8034f5c8564e155c67a7. Actual MD5 was: 9dd4e461268c8034f5c8564e155c67a6 (10037)"},
	{`r2.head("b")`, "null"},
	{`r2.put("b", null).then(() => text(r2.get("b")))`, `["",null]`},
	{`r2.put("n", "0123456789").then(() => text(r2.get("n", { range: { offset: 2, length: 3 } })))`, `["234",{"offset":2,"length":3}]`},
	{`text(r2.get("n", { range: { suffix: 3 } }))`, `["789",{"offset":7,"length":3}]`},
	{`text(r2.get("n", { range: { offset: 8, length: 9 } }))`, `["89",{"offset":8,"length":2}]`},
	{`text(r2.get("n", { range: new Headers({ range: "bytes=1-2" }) }))`, `["12",{"offset":1,"length":2}]`},
	{`r2.get("n", { range: { offset: 11 } })`, "Error: get: The requested range is not satisfiable (10039)"},
	{`r2.get("a/1", { onlyIf: { etagMatches: "` + md5OfText + `" } }).then((o) => o.text())`, `"text"`},
	{`r2.get("a/1", { onlyIf: { etagDoesNotMatch: "` + md5OfText + `" } }).then((o) => "body" in o)`, "false"},
	{`r2.get("a/1", { onlyIf: { uploadedBefore: new Date(1000) } }).then((o) => "body" in o)`, "false"},
	{`r2.get("a/1", { onlyIf: new Headers({ "if-none-match": '"x", W/"` + md5OfText + `"' }) }).then((o) => "body" in o)`, "false"},
	{`r2.put("a/1", "other", { onlyIf: { etagMatches: "nothing" } })`, "null"},
	{`r2.put("new", "x", { onlyIf: new Headers({ "if-match": "*" }) })`, "null"},
	{`r2.put("a/1", "x", { onlyIf: new Headers({ "if-none-match": "*" }) })`, "null"},
	{`r2.get("a/1").then((o) => o.text())`, `"text"`},
	{`r2.put("a/1", "second", { onlyIf: { etagMatches: "` + md5OfText + `" } }).then(() => r2.get("a/1")).then((o) => o.text())`, `"second"`},
	{`r2.put("a/x/2", "x").then(() => r2.put("a/x/3", "x")).then(() => r2.put("a/z", "x")).then(() => r2.list().then(names))`, `[["a/1","a/x/2","a/x/3","a/z","b","n","ä ?%/\u0001"],[],false,"undefined"]`},
	{`r2.list({ prefix: "a/", delimiter: "/" }).then(names)`, `[["a/1","a/z"],["a/x/"],false,"undefined"]`},
	{`r2.list({ delimiter: "/" }).then(names)`, `[["b","n"],["a/","ä ?%/"],false,"undefined"]`},
	{`r2.list({ limit: 2 }).then((l) => r2.list({ limit: 2, cursor: l.cursor })).then(names)`, `[["a/x/3","a/z"],[],true,"string"]`},
	{`r2.list({ limit: 2, prefix: "a/", delimiter: "/" }).then((l) => r2.list({ prefix: "a/", delimiter: "/", cursor: l.cursor })).then(names)`, `[["a/z"],[],false,"undefined"]`},
	{`r2.list({ startAfter: "a/z" }).then(names)`, `[["b","n","ä ?%/\u0001"],[],false,"undefined"]`},
	{`r2.list({ prefix: "ä", include: ["customMetadata"] }).then((l) => [l.objects[0].customMetadata, l.objects[0].httpMetadata])`, `[{"k\"":"vé"},null]`},
	{`r2.list({ limit: 1001 })`, "Error: list: MaxKeys params must be positive integer <= 1000. (10022)"},
	{`r2.delete(["a/x/2", "a/x/3", "none"])`, "undefined"},
	{`r2.delete("a/z")`, "undefined"},
	{`r2.list({ prefix: "a/" }).then(names)`, `[["a/1"],[],false,"undefined"]`},
	{`r2.put("", "x")`, "Error: put: The specified object name is not valid. A key has 1 to 1024 bytes of UTF-8. (10020)"},
	{`r2.put("x".repeat(1025), "x")`, "Error: put: The specified object name is not valid. A key has 1 to 1024 bytes of UTF-8. (10020)"},
	{`r2.put("m", "x", { customMetadata: { k: "x".repeat(8192) } })`, "Error: put: Your metadata headers exceed the maximum allowed metadata size. (10012)"},
	{`r2.put("m", "x", { ssecKey: "00".repeat(32) })`, "Error: put: Keys of the caller's own (ssecKey) are not supported. (10029)"},
	{`r2.put("stream", new Response(mib(20, 3)).body).then(() => r2.get("stream")).then((o) => o.arrayBuffer()).then((b) => [b.byteLength, new Uint8Array(b).every((x) => x === 3)])`, "[20971520,true]"},
	{`r2.createMultipartUpload("big", { customMetadata: { c: "1" }, httpMetadata: { contentType: "x/y" } }).then((u) => (upload = u, [u.key, typeof u.uploadId]))`, `["big","string"]`},
	{`upload.uploadPart(1, mib(5, 1)).then((p) => (etags[0] = p, p.partNumber))`, "1"},
	{`upload.uploadPart(2, mib(5, 9)).then((p) => p.partNumber)`, "2"},
	{`upload.uploadPart(2, mib(5, 2)).then((p) => (etags[1] = p, p.partNumber))`, "2"},
	{`r2.resumeMultipartUpload("big", upload.uploadId).uploadPart(3, "end").then((p) => (etags[2] = p, p.partNumber))`, "3"},
	{`upload.uploadPart(10001, "x")`, "TypeError: Part number must be between 1 and 10000 (inclusive). Actual value was: 10001"},
	{`upload.complete([etags[0], { partNumber: 2, etag: "wrong" }])`, "Error: completeMultipartUpload: One or more of the specified parts could not be found. (10025)"},
	{`upload.complete([etags[0], etags[0]])`, "Error: completeMultipartUpload: One or more of the specified parts could not be found. (10025)"},
	{`upload.complete([etags[2], etags[1], etags[0]]).then((o) => [o.size, /^[0-9a-f]{32}-3$/.test(o.etag), o.customMetadata, o.httpMetadata])`, `[10485763,true,{"c":"1"},{"contentType":"x/y"}]`},
	{`text(r2.get("big", { range: { offset: 10485758, length: 5 } })).then(([t, r]) => [[...t].map((c) => c.charCodeAt(0)), r])`, `[[2,2,101,110,100],{"offset":10485758,"length":5}]`},
	{`r2.get("big", { range: { offset: 5242879, length: 2 } }).then((o) => o.arrayBuffer()).then((b) => [...new Uint8Array(b)])`, "[1,2]"},
	{`upload.complete([etags[0]])`, "Error: completeMultipartUpload: The specified multipart upload does not exist. (10024)"},
	{`r2.createMultipartUpload("gone").then((u) => (upload = u, u.uploadPart(1, "x"))).then(() => upload.abort())`, "undefined"},
	{`upload.uploadPart(2, "x")`, "Error: uploadPart: The specified multipart upload does not exist. (10024)"},
	{`env.OTHER.head("a/1")`, "null"},
	{`env.LOST.head("a/1")`, "Error: head: the app has no such R2 bucket (10029)"},
}

// TestR2OnWorkerd makes every call of the binding on the real runtime and real files.
func TestR2OnWorkerd(t *testing.T) {
	buckets := r2.New(filepath.Join(t.TempDir(), "r2"), func(string) {}, slog.New(slog.DiscardHandler))
	t.Cleanup(buckets.Close)
	answer(t, buckets, calls)
}

// TestR2OnS3 makes the same calls on a real S3 store, whose lists, which are XML, have no control characters.
func TestR2OnS3(t *testing.T) {
	journal := r2.New(filepath.Join(t.TempDir(), "r2"), func(string) {}, slog.New(slog.DiscardHandler))
	t.Cleanup(journal.Close)
	buckets, err := s3.New(s3.Options{
		Place: s3.Place{Endpoint: s3test.Serve(t), Region: s3test.Region, Bucket: s3test.Bucket}, Credentials: s3test.Credentials,
		Scratch: t.TempDir(), Journal: journal, Doubtful: func() {}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(buckets.Close)
	same := make([][2]string, 0, len(calls)+1)
	same = append(same, [2]string{`r2.put("\u0001", "x")`, "Error: put: A key has no control characters in this store. (10029)"})
	for _, c := range calls {
		same = append(same, [2]string{strings.ReplaceAll(c[0], `\u0001`, "§"), strings.ReplaceAll(c[1], `\u0001`, "§")})
	}
	answer(t, buckets, same)
}

// answer holds buckets to the calls and their answers.
func answer(t *testing.T, buckets Buckets, calls [][2]string) {
	t.Helper()
	handler := NewDoor(buckets, slog.New(slog.DiscardHandler)).Handler(&app.Manifest{R2Buckets: []app.R2Bucket{
		{Binding: "R2", Bucket: "files"}, {Binding: "OTHER", Bucket: "other"},
	}})
	text := ""
	for i, c := range calls {
		text += fmt.Sprintf("  %d: (r2, env) => %s,\n", i, c[0])
	}
	url := serve(t, fmt.Sprintf(script, text), handler)
	for i, c := range calls {
		if got := workerdtest.Get(t, fmt.Sprint(url, i)); got != c[1] {
			t.Errorf("%s\n%s", c[0], cmp.Diff(c[1], got))
		}
	}
}

// serve runs the script with the handler behind its bindings.
func serve(t *testing.T, code string, h http.Handler) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "r2")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: h}}
	server.Start()
	t.Cleanup(server.Close)
	bindings, services := "", ""
	for _, name := range []string{"R2", "OTHER", "LOST"} {
		bindings += fmt.Sprintf("(name = %q, r2Bucket = %q), ", name, name)
		services += fmt.Sprintf("(name = %q, external = (address = \"unix:%s\", http = (injectRequestHeaders = [(name = %q, value = %q)]))),\n", name, socket, Header, name)
	}
	config := fmt.Sprintf(`using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (services = [
  (name = "user", worker = (modules = [(name = "main.mjs", esModule = embed "main.mjs")], compatibilityDate = "2026-11-01", bindings = [%s])),
  %s],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "user")]);`, bindings, services)
	if err := os.WriteFile(filepath.Join(dir, "main.mjs"), []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	return workerdtest.Serve(t, dir, config)
}
