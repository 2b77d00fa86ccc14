// Package peer runs what the engine is compared to: a bare loop over the same table, River, graphile-worker, and
// workerd's own queue.
package peer

// Body is the message of every figure: JSON of 200 bytes.
var Body = []byte(`{"type":"crawl","url":"https://example.com/some/page?with=a&query=string","depth":3,"attempt":0,"pad":"` +
	`xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx` + `"}`)
