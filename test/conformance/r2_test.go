package conformance_test

const cloudflareR2 = "Workers docs, R2"

// r2Cases are the rules of R2 buckets. Each has keys of its own.
func r2Cases() []testCase {
	r2 := func(id, rule string, calls []object, want []string, wrongs ...wrong) testCase {
		return steps("r2", cloudflareR2, id, rule, calls, want, wrongs...)
	}
	const (
		etagX = "9dd4e461268c8034f5c8564e155c67a6"
		x     = `"etag":"` + etagX + `"`
	)
	onlyIf := func(key, etag string) object { return object{"onlyIf": object{key: etag}} }
	return []testCase{
		r2("r2-objects", "what was put is read at once, with its size, etag and metadata; a key that is not there is null",
			[]object{
				calling("get", "objects/a"), calling("put", "objects/a", "x", object{"httpMetadata": object{"contentType": "a/b"}, "customMetadata": object{"k": "vé"}}),
				calling("head", "objects/a"), calling("get", "objects/a"), calling("put", "objects/a", special("stream")), calling("get", "objects/a"),
				calling("put", "objects/a", nil), calling("get", "objects/a"), calling("delete", []string{"objects/a", "objects/none"}), calling("head", "objects/a"),
			},
			[]string{
				"null", `{"custom":{"k":"vé"},` + x + `,"http":{"contentType":"a/b"},"key":"objects/a","size":1}`,
				`{"custom":{"k":"vé"},` + x + `,"http":{"contentType":"a/b"},"key":"objects/a","size":1}`,
				`{"custom":{"k":"vé"},` + x + `,"http":{"contentType":"a/b"},"key":"objects/a","size":1,"text":"x"}`,
				`{"etag":"aae2c33a105ad3f28f39402d67a24b20","key":"objects/a","size":7}`, `{"etag":"aae2c33a105ad3f28f39402d67a24b20","key":"objects/a","size":7,"text":"one two"}`,
				`{"etag":"d41d8cd98f00b204e9800998ecf8427e","key":"objects/a","size":0}`, `{"etag":"d41d8cd98f00b204e9800998ecf8427e","key":"objects/a","size":0,"text":""}`, "null", "null",
			},
			answers("metadata is lost", 2, `{`+x+`,"key":"objects/a","size":1}`), answers("a read sees the object before", 5, `{`+x+`,"key":"objects/a","size":1,"text":"x"}`),
			answers("a deleted object is there", 9, `{"etag":"d41d8cd98f00b204e9800998ecf8427e","key":"objects/a","size":0}`),
		),
		r2("r2-ranges", "a range is an offset, a length or a suffix, cut at the end of the object",
			[]object{
				calling("put", "ranges", "0123456789"), calling("get", "ranges", object{"range": object{"offset": 2, "length": 3}}),
				calling("get", "ranges", object{"range": object{"suffix": 2}}), calling("get", "ranges", object{"range": object{"offset": 9, "length": 5}}),
				calling("get", "ranges", object{"range": object{"offset": 11}}),
			},
			[]string{
				`{"etag":"781e5e245d69b566979b86e28d23f2c7","key":"ranges","size":10}`,
				`{"etag":"781e5e245d69b566979b86e28d23f2c7","key":"ranges","range":{"length":3,"offset":2},"size":10,"text":"234"}`,
				`{"etag":"781e5e245d69b566979b86e28d23f2c7","key":"ranges","range":{"length":2,"offset":8},"size":10,"text":"89"}`,
				`{"etag":"781e5e245d69b566979b86e28d23f2c7","key":"ranges","range":{"length":1,"offset":9},"size":10,"text":"9"}`,
				"Error: get: The requested range is not satisfiable (10039)",
			},
			answers("a suffix is a length", 2, `{"etag":"781e5e245d69b566979b86e28d23f2c7","key":"ranges","range":{"length":2,"offset":0},"size":10,"text":"01"}`),
			accepted("a range behind the end is empty", 4),
		),
		r2("r2-conditions", "a put whose condition does not hold changes nothing and gives null; a get has no body then",
			[]object{
				calling("put", "conditions", "x"), calling("put", "conditions", "y", onlyIf("etagMatches", "other")), calling("put", "conditions", "y", onlyIf("etagDoesNotMatch", etagX)),
				calling("get", "conditions", onlyIf("etagDoesNotMatch", etagX)), calling("get", "conditions", onlyIf("etagMatches", etagX)),
				calling("put", "conditions-new", "y", onlyIf("etagMatches", etagX)), calling("put", "conditions", "x", onlyIf("etagMatches", etagX)),
			},
			[]string{
				`{` + x + `,"key":"conditions","size":1}`, "null", "null", `{` + x + `,"key":"conditions","size":1}`, `{` + x + `,"key":"conditions","size":1,"text":"x"}`,
				"null", `{` + x + `,"key":"conditions","size":1}`,
			},
			answers("a put overwrites another's", 1, `{`+x+`,"key":"conditions","size":1}`), answers("an unchanged object has a body", 3, `{`+x+`,"key":"conditions","size":1,"text":"x"}`),
		),
		r2("r2-list", "a list is in the order of the keys' bytes, by prefix, with what is behind a delimiter as one, in pages",
			[]object{
				calling("put", "list/a", "x"), calling("put", "list/b/1", "x"), calling("put", "list/b/2", "x"), calling("put", "list/é", "x"),
				calling("list", object{"prefix": "list/", "limit": 3}), calling("list", object{"prefix": "list/", "cursor": "last"}),
				calling("list", object{"prefix": "list/", "delimiter": "/", "limit": 2}), calling("list", object{"prefix": "list/", "delimiter": "/", "cursor": "last"}),
				calling("list", object{"prefix": "list/", "startAfter": "list/b/1"}), calling("list", object{"limit": 1001}),
			},
			[]string{
				`{` + x + `,"key":"list/a","size":1}`, `{` + x + `,"key":"list/b/1","size":1}`, `{` + x + `,"key":"list/b/2","size":1}`, `{` + x + `,"key":"list/é","size":1}`,
				`{"keys":["list/a","list/b/1","list/b/2"],"more":true,"prefixes":[]}`, `{"keys":["list/é"],"more":false,"prefixes":[]}`,
				`{"keys":["list/a"],"more":true,"prefixes":["list/b/"]}`, `{"keys":["list/é"],"more":false,"prefixes":[]}`,
				`{"keys":["list/b/2","list/é"],"more":false,"prefixes":[]}`, "Error: list: MaxKeys params must be positive integer <= 1000. (10022)",
			},
			answers("a prefix comes on each page", 7, `{"keys":["list/é"],"more":false,"prefixes":["list/b/"]}`), accepted("any number comes at once", 9),
		),
		r2("r2-parts", "parts of one size become one object, whose etag is that of the etags",
			[]object{calling("parts", "parts", []int{5 << 20, 5 << 20, 3}), calling("parts", "parts", []int{3, 5 << 20}), calling("parts", "parts", []int{5 << 20, 6 << 20})},
			[]string{
				`{"etag":"` + partsEtag + `","size":10485763}`,
				"Error: completeMultipartUpload: Your proposed upload is smaller than the minimum allowed object size. (10011)",
				"Error: completeMultipartUpload: There was a problem with the multipart upload. All parts but the last have the same size. (10048)",
			},
			accepted("a small part may come first", 1), answers("the etag is that of the whole", 0, `{"etag":"`+etagX+`","size":10485763}`),
		),
		r2("r2-limits", "a wrong checksum, a long key and large metadata are refused, and change nothing",
			[]object{
				calling("put", "limits", "x", object{"md5": "00000000000000000000000000000000"}), calling("put", object{"repeat": 1025}, "x"),
				calling("put", "limits", "x", object{"customMetadata": object{"k": object{"repeat": 8192}}}), calling("head", "limits"),
			},
			[]string{
				"Error: put: The MD5 checksum you specified did not match what we received. You provided a MD5 checksum with value: 00000000000000000000000000000000. Actual MD5 was: " + etagX + " (10037)",
				"Error: put: The specified object name is not valid. A key has 1 to 1024 bytes of UTF-8. (10020)",
				"Error: put: Your metadata headers exceed the maximum allowed metadata size. (10012)", "null",
			},
			accepted("a damaged body is kept", 0), answers("what is refused is there", 3, `{`+x+`,"key":"limits","size":1}`),
		),
	}
}

// partsEtag is the MD5 of the MD5s of 5 MiB of 0, 5 MiB of 1 and three bytes of 2, and their number.
const partsEtag = "33d07ab8cf142b3f82efb5c0eec6133c-3"
