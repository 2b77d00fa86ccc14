// Package crons keeps in PostgreSQL what is remembered of the crons of apps, and how their runs ended. It implements
// schedule.Store with small transactions over connections of its own, which close when nothing is due for a while.
package crons

//go:generate env CGO_ENABLED=0 go run github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1 generate
