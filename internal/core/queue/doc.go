// Package queue is the vocabulary of queues and every rule about a message: what it is, which bounds it keeps, what a
// handler's result means for it, how long it waits before it is tried again and what it costs. It is pure: no I/O, no
// clock, no goroutine. The engines carry its decisions out; SQL only moves rows.
package queue

//go:generate go run ./limitsdoc ../../../docs/LIMITS.md
