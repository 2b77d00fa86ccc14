// Package schedule runs the scheduled handlers of apps: each occurrence of a cron once across all nodes, one run of an
// app at a time, tried again with back-off until the next occurrence, and after a downtime the latest occurrence only.
//
// The database is the memory and the arbiter. Per app it holds a fence, a beat and whether a run is under way; per cron
// the last occurrence that was claimed and what is to become of it. A node that finds an occurrence due claims it by
// comparing and setting fence and beat, in the same transaction in which it notes the occurrence; while it runs, it moves
// the beat on. A node that sees the same fence and beat for queue.CronLease of its own monotonic clock takes the run to be
// lost, and the fence makes sure that nothing of it counts any more. So no clock that jumps can start a second run. Which
// occurrence is due is decided by the clock of the database, which all nodes share.
package schedule
