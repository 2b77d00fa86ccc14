package clustertest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/runlot/runlot/internal/core/fault"
)

// Connect opens a session at an address of cluster.Access, which ends after the test.
func Connect(tb testing.TB, url string) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), url)
	Must(tb, err)
	tb.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// Must ends the test when there is an error, and says all of it.
func Must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(fault.Detail(err))
	}
}

// Exec runs statements, without arguments any number of them.
func Exec(tb testing.TB, conn *pgx.Conn, sql string, args ...any) {
	tb.Helper()
	if _, err := conn.Exec(tb.Context(), sql, args...); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

// One returns the one value that a query gives.
func One[T any](tb testing.TB, conn *pgx.Conn, sql string, args ...any) T {
	tb.Helper()
	var v T
	if err := conn.QueryRow(tb.Context(), sql, args...).Scan(&v); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
	return v
}
