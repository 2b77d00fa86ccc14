// Package r2 answers Cloudflare's calls about R2 buckets: which there are, the objects in them, and the rules that tell queues
// of events. Objects are those that the bindings of Workers see, and raise the same events.
package r2
