// Package usage keeps a database's queues within what its owner may spend: it counts operations by the day, refuses sends
// beyond the daily cap and while the database is full, and tells when a bound is near or reached.
//
// A Meter counts and decides; it is pure, and takes the time from its callers. A Keeper writes its counts to the store
// and tells SQL and the observer what they have to know. A Space looks at how full the database is. The broker owns the
// goroutines.
//
// # What is counted
//
// Each started 64,000 bytes of a message is an operation (queue.Operations) when it is
//
//   - written: by a send, also one of SQL, and by the move to another queue;
//   - delivered: handed to a handler call, each time again;
//   - deleted: acknowledged, dropped or expired. A move to another queue is its write alone.
//
// What a commit brings about is counted in the same transaction. Deliveries, what SQL enqueued and what expired are in
// memory for about a second first; a crash forgets these, and an orderly stop does not.
//
// # What a bound stops
//
// Only sends, each as a whole, and SQL's sends, which read a refusal that the owner leaves in the database. Deliveries,
// retries, moves to a dead-letter queue, expiry and everything that an operator does go on, so that what is stored can
// always drain.
package usage
