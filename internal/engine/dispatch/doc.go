// Package dispatch delivers: it takes batches from lanes, runs the app's queue handler with bounded time and
// concurrency, settles the batch by the rule of core/queue, isolates what kills its process, and records how each batch
// ended.
package dispatch
