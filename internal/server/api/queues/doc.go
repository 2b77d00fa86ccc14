// Package queues is the calls of the API about queues, their messages and their batches.
package queues
