// Package node runs versions of apps on one machine: their processes, the queues of their databases, and the doors for
// requests. What a version is made from, and which one is live, is decided by who uses it.
package node
