// Package broker keeps queues: it accepts sends (group commit), holds what is ready or due in bounded lanes, hands out
// batches under in-memory leases, and settles them (group commit). It is the one owner of a database's queues and the
// only one that decides what is written; the Store moves rows.
package broker
