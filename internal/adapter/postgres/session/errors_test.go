package session_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

func TestClassify(t *testing.T) {
	plain := errors.New("plain")
	for _, c := range []struct {
		err  error
		kind fault.Kind
		code string
	}{
		{&pgconn.PgError{Code: "53100"}, fault.Limit, queue.CodeStorageFull},
		{&pgconn.PgError{Code: "53300"}, fault.Unavailable, session.CodeDatabaseUnavailable},
		{&pgconn.PgError{Code: "40P01"}, fault.Unavailable, session.CodeDatabaseUnavailable},
		{&pgconn.PgError{Code: "57P01"}, fault.Unavailable, session.CodeDatabaseUnavailable},
		{&pgconn.PgError{Code: "08006"}, fault.Unavailable, session.CodeDatabaseUnavailable},
		{&pgconn.PgError{Code: "08P01"}, fault.Environment, session.CodeDatabasePooler},
		{&pgconn.PgError{Code: "25006"}, fault.Unavailable, session.CodeDatabaseReadOnly},
		{&pgconn.PgError{Code: "23505"}, fault.Internal, "internal"},
		{context.DeadlineExceeded, fault.Unavailable, session.CodeDatabaseUnavailable},
		{fault.New(fault.Invalid, "x", "y"), fault.Invalid, "x"},
		{plain, fault.Internal, "internal"},
	} {
		err := fmt.Errorf("wrapped: %w", c.err)
		if f := fault.From(session.Classify(err)); f.Kind != c.kind || f.Code != c.code {
			t.Errorf("%v is %s %s, want %s %s", c.err, f.Kind, f.Code, c.kind, c.code)
		}
	}
	if session.Classify(nil) != nil {
		t.Error("nil is an error")
	}
}
