// Package operate is what an operator can do with the queues of a broker beside sending and consuming: look at the
// messages, purge, redrive dead letters, delete or hurry single messages, and, through package settings, pause and resume
// and change how long messages stay. It
// also deletes what outlived its retention, which is the same work without a caller.
//
// # What holds
//
// A look leases nothing and is bounded in rows, in bytes and in time, so it disturbs no delivery and works for a queue
// without a consumer.
//
// What changes messages goes in steps. A step is one transaction of at most queue.OperateRows messages, made while no
// settlement is between the store and the lanes: each message is then either under lease, and left alone, or held back from
// the lanes until the step is committed. Between two steps sends and settlements have their turn. A call that is
// interrupted, by its context or by the end of the process, leaves whole steps: what was done stays done, the rest is
// as it was. Once begun, a step waits for a store that does not answer, because only then it is known what became of it.
//
// A purge takes effect at once, by one written number, and survives the end of the process; only the deletion goes in steps.
// The broker goes on with it when nobody waits for it any more.
package operate
