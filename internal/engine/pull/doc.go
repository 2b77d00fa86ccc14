// Package pull is the other way to consume a queue: over HTTP, by whoever holds a token. A pull leases messages for a time;
// who pulled them acks them, asks for a retry, or lets the lease run out, which spends a retry too.
//
// # What holds
//
// Each message is settled by itself, by the same rules and through the same lane as those of a batch. A lease is a fact in
// memory: when the broker ends, it is over, and the message is delivered again without having spent a retry. While it
// holds, nobody else gets the message.
//
// The id of a lease says which message it is of, and is signed, so that it needs nothing in memory to be understood: an
// ack deletes its message whenever it comes, after the lease ran out, after a restart and on another node, as long as the
// message is in its queue. The work is done then, whoever holds the message meanwhile. A retry counts only while the very
// lease holds: later it would put off a delivery that is due.
//
// Memory is bounded: what is pulled and not settled is at most queue.PullHeld messages of a queue and about
// queue.PullHeldBytes of bodies in all; beyond, pulls are refused until some of it is settled. One timer serves all leases.
package pull
