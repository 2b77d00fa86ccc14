// Package daemon wires the parts: it starts PostgreSQL, opens the databases, builds and runs the apps, delivers their
// queues, and stops everything in reverse. It is the only package that knows every other; it holds no rule of its own.
package daemon
