// Package tail serves the calls by which a client follows a script live: it makes a tail, opens a WebSocket at the address that it
// is answered, and gets an event for each invocation that has ended.
package tail
