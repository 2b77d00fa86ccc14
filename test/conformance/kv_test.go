package conformance_test

import (
	"fmt"

	"github.com/google/go-cmp/cmp"
)

const cloudflareKV = "Workers docs, KV"

// steps is a case that makes calls of an app and is judged by their answers: a value as JSON, or "Error: …".
func steps(app, source, id, rule string, calls []object, want []string, wrongs ...wrong) testCase {
	return testCase{
		id: id, rule: rule, source: source, app: app, wrong: wrongs,
		drive: func(r *run) { r.keep(r.post("/", calls)) },
		check: func(o *observation) error {
			got := make([]string, len(o.Answers))
			for i := range o.Answers {
				if got[i] = o.Answers[i].String(); o.Answers[i].Error == nil {
					got[i] = compact(o.Answers[i].Value)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				return fmt.Errorf("answers (-want +got):\n%s", diff)
			}
			return nil
		},
	}
}

// calling is one call of a method.
func calling(call string, args ...any) object { return object{"call": call, "args": args} }

// on makes the call on another binding.
func on(binding string, call object) object {
	call["on"] = binding
	return call
}

// kvCases are the rules of KV namespaces. Each has keys of its own.
func kvCases() []testCase {
	kv := func(id, rule string, calls []object, want []string, wrongs ...wrong) testCase {
		return steps("kv", cloudflareKV, id, rule, calls, want, wrongs...)
	}
	return []testCase{
		kv("kv-values", "what was put is read at once, as text, JSON, a buffer or a stream; a key that is not there is null",
			[]object{
				calling("get", "values-a"), calling("put", "values-a", "[1]"), calling("get", "values-a"), calling("get", "values-a", "json"),
				calling("get", "values-a", object{"type": "arrayBuffer", "cacheTtl": 60}), calling("get", "values-a", "stream"),
				calling("put", "values-a", special("bytes")), calling("get", "values-a", "arrayBuffer"), calling("put", "values-a", special("stream")),
				calling("get", "values-a"), calling("put", "values-a", ""), calling("get", "values-a"), calling("delete", "values-a"),
				calling("delete", "values-a"), calling("get", "values-a"), calling("put", "values /é?#%41", "x"), calling("get", "values /é?#%41"),
			},
			[]string{
				"null", "null", `"[1]"`, "[1]", "[91,49,93]", `{"stream":"[1]"}`, "null", "[1,255]", "null", `"one two"`, "null", `""`, "null", "null", "null", "null", `"x"`,
			},
			answers("a read sees the value before", 2, "null"), answers("a view is its whole buffer", 7, "[0,1,255]"), answers("an empty value is none", 11, "null"),
			answers("a deleted key is read", 14, `""`), answers("a key is decoded twice", 16, "null"),
		),
		kv("kv-metadata", "metadata is any JSON, comes with the value and in lists, and goes with the next put that names none",
			[]object{
				calling("put", "metadata-a", "x", object{"metadata": object{"é": []any{1, nil, "\u0000"}}}), calling("getWithMetadata", "metadata-a"),
				calling("put", "metadata-b", "1", object{"metadata": "text"}), calling("getWithMetadata", "metadata-b", "json"),
				calling("list", object{"prefix": "metadata-"}), calling("put", "metadata-a", "y"), calling("getWithMetadata", "metadata-a"),
				calling("getWithMetadata", "metadata-none"),
			},
			[]string{
				"null", `{"cacheStatus":null,"metadata":{"é":[1,null,"\u0000"]},"value":"x"}`, "null", `{"cacheStatus":null,"metadata":"text","value":1}`,
				`{"cacheStatus":null,"keys":[{"metadata":{"é":[1,null,"\u0000"]},"name":"metadata-a"},{"metadata":"text","name":"metadata-b"}],"list_complete":true}`,
				"null", `{"cacheStatus":null,"metadata":null,"value":"y"}`, `{"cacheStatus":null,"metadata":null,"value":null}`,
			},
			answers("the metadata stays", 6, `{"cacheStatus":null,"metadata":{"é":[1,null,"\u0000"]},"value":"y"}`),
			answers("a list has no metadata", 4, `{"cacheStatus":null,"keys":[{"name":"metadata-a"},{"name":"metadata-b"}],"list_complete":true}`),
		),
		kv("kv-list", "a list is in the order of the keys' bytes, by prefix, in pages that a cursor goes on from, with when keys expire",
			[]object{
				calling("put", "list-é", "1"), calling("put", "list-z", "1", special("hour")), calling("put", "list-a", "1"), calling("put", "list-Z", "1"),
				calling("list", object{"prefix": "list-", "limit": 3}), calling("list", object{"prefix": "list-", "cursor": "last"}),
				calling("list", object{"prefix": "list-none"}), calling("list", object{"limit": 1001}), calling("list", object{"cursor": "%"}),
			},
			[]string{
				"null", "null", "null", "null",
				`{"cacheStatus":null,"cursor":"string","keys":[{"name":"list-Z"},{"name":"list-a"},{"expiration":6,"name":"list-z"}],"list_complete":false}`,
				`{"cacheStatus":null,"keys":[{"name":"list-é"}],"list_complete":true}`, `{"cacheStatus":null,"keys":[],"list_complete":true}`,
				"Error: KV GET failed: 400 Invalid key_count_limit of 1001. Please specify an integer less than or equal to 1000.",
				"Error: KV GET failed: 400 Invalid cursor.",
			},
			answers("a page holds the last key of the one before", 5, `{"cacheStatus":null,"keys":[{"name":"list-z"},{"name":"list-é"}],"list_complete":true}`),
			accepted("any number of keys comes at once", 7), answers("a prefix is a whole key", 6, `{"cacheStatus":null,"keys":[{"name":"list-a"}],"list_complete":true}`),
		),
		kv("kv-bulk", "up to 100 keys are read at once into a map, null where there is none",
			[]object{
				calling("put", "bulk-a", `{"x":1}`, object{"metadata": 0}), calling("put", "bulk-b", "[]"),
				calling("get", []string{"bulk-b", "bulk-none", "bulk-a"}), calling("get", []string{"bulk-a", "bulk-a"}, "json"),
				calling("getWithMetadata", []string{"bulk-a", "bulk-none"}, "json"), calling("get", object{"keys": 101}), calling("get", []string{"bulk-a"}, "stream"),
			},
			[]string{
				"null", "null", `{"map":[["bulk-b","[]"],["bulk-none",null],["bulk-a","{\"x\":1}"]]}`, `{"map":[["bulk-a",{"x":1}]]}`,
				`{"map":[["bulk-a",{"metadata":0,"value":{"x":1}}],["bulk-none",null]]}`,
				"Error: KV GET_BULK failed: 400 You can request a maximum of 100 keys",
				`Error: KV GET_BULK failed: 400 "stream" is not a valid type. Use "json" or "text"`,
			},
			answers("a missing key is left out", 2, `{"map":[["bulk-b","[]"],["bulk-a","{\"x\":1}"]]}`), accepted("101 keys are read", 5),
		),
		kv("kv-limits", "a key has at most 512 bytes, metadata 1,024 and a value 25 MiB; a key lives for a minute at least; what is refused changes nothing",
			[]object{
				calling("put", "limits", "kept"), calling("put", object{"repeat": 513}, "x"), calling("put", "", "x"), calling("put", "..", "x"),
				calling("put", "limits", "x", object{"metadata": "01234567890123456789012345678901234567890123456789" + string(make([]byte, 163))}),
				calling("put", "limits", object{"repeat": 26_214_401}), calling("put", "limits", "x", object{"expirationTtl": 59}),
				calling("put", "limits", "x", object{"expiration": 1}), calling("get", "limits", object{"cacheTtl": 29}),
				calling("get", "limits"),
			},
			[]string{
				"null", "Error: KV PUT failed: 414 UTF-8 encoded length of 513 exceeds key length limit of 512.", "TypeError: Key name cannot be empty.",
				`TypeError: ".." is not allowed as a key name.`, "Error: KV PUT failed: 413 Metadata length of 1030 exceeds limit of 1024.",
				"Error: KV PUT failed: 413 Value length of 26214401 exceeds limit of 26214400.",
				"Error: KV PUT failed: 400 Invalid expiration_ttl of 59. Expiration TTL must be at least 60.",
				"Error: KV PUT failed: 400 Invalid expiration of 1. Please specify integer greater than the current number of seconds since the UNIX epoch.",
				"Error: KV GET failed: 400 Invalid cache_ttl of 29. Cache TTL must be at least 30.", `"kept"`,
			},
			accepted("a long key is taken", 1), accepted("long metadata is taken", 4), accepted("a large value is taken", 5), accepted("a short life is taken", 6),
			answers("a refused put has an effect", 9, `"x"`),
		),
		kv("kv-shared", "bindings of one id share a namespace; one without an id has its own",
			[]object{
				calling("put", "shared", "x"), on("SAME", calling("get", "shared")), on("OTHER", calling("get", "shared")), on("OTHER", calling("put", "shared", "y")),
				calling("get", "shared"),
			},
			[]string{"null", `"x"`, "null", "null", `"x"`},
			answers("the namespaces are apart", 1, "null"), answers("the namespaces are one", 2, `"x"`),
		),
	}
}
