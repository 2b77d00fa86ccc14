// Package broker keeps queues: it accepts sends (group commit), holds what is ready or due in bounded lanes, hands out
// batches under in-memory leases, and settles them (group commit). It is the one owner of a database's queues and the
// only one that decides what is written; a store.Store moves rows.
//
// # How it works
//
// One goroutine, the flusher, commits what is sent and what SQL enqueued, group after group, so that messages become
// visible to readers in the order of their Seqs. Another, the settler, commits the decisions about batches. Each tells
// the queues what was committed, and only then answers. A queue with an open Lane has a window of messages in memory: it
// takes commits directly while it has caught up, and is filled from the store by a few reading goroutines while it has
// not. One timer wakes the queues whose delayed messages or partial batches fall due. A sweeper counts the messages once,
// records how far the queues are settled, and deletes what outlived its retention.
//
// The parts, from below: package store is the port to the database; window, the messages of one queue in memory; backlog,
// what is known of every queue, with its leases and waiting calls; operate, the verbs of an operator, whose methods a Broker
// has. This package owns the goroutines, and the gates under which anything is written.
//
// # What holds
//
// A message whose Send returned nil is delivered until a settlement that deletes it is committed, and never after that by
// an owner that lives. It is under at most one lease at a time. A retry is in the store before it is delivered, so its
// counters survive a restart; a delivery that was never settled spends none. No message comes before its time. A
// settlement counts only while its lease holds.
//
// Deliveries never read from the start of a queue: reads begin at a cursor, and after a restart at the marks, so that rows
// deleted long ago cost nothing, even when a long transaction elsewhere keeps them from being cleaned up.
package broker
