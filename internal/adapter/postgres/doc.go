// Package postgres keeps the messages of one database in the schema runlot_queue of a PostgreSQL (15 or later): it is the
// store.Store that production runs on.
//
// One session advisory lock makes its holder the owner. The owner's sessions are named runlot/<epoch>; whoever takes the
// ownership raises the epoch, ends the sessions of every earlier one and waits until they are gone, so that no write of
// an earlier owner can follow. The message table is written by two sessions, one that adds and one that settles, and
// read by a small pool. Rows are found by keyset alone, starting at a place that the owner knows, and the planner is
// held to the indexes, so that neither dead rows nor stale statistics slow anything down.
//
// Package session opens the sessions and reads their errors, package schema prepares the database.
//
// Rows that SQL enqueued wait in the inbox table, because they commit in any order; the owner moves them to their
// queues and numbers them.
//
// Connections must reach PostgreSQL directly: locks, settings and prepared statements belong to a session. Package
// preflight judges that, and all else that a server of the user's own must be like.
package postgres

//go:generate env CGO_ENABLED=0 go run github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1 generate
