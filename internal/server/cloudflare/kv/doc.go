// Package kv answers Cloudflare's calls about KV namespaces: which there are, and the keys and values in them, which are those
// that the bindings of Workers see.
package kv
