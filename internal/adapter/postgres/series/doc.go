// Package series keeps the minutes of queues in their PostgreSQL database. It is the series.Store that production runs on.
// It writes without the ownership of the queues: a node that lost it may still have something to tell.
package series

//go:generate env CGO_ENABLED=0 go run github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1 generate
