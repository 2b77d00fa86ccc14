package session

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Codes of the faults that Classify makes, beside queue.CodeStorageFull.
const (
	CodeDatabaseURL         = "database_url"
	CodeDatabaseUnavailable = "database_unavailable"
	CodeDatabaseRights      = "database_rights"
	CodeDatabaseReadOnly    = "database_read_only"
	CodeDatabasePooler      = "database_pooler"
)

// Unavailable says that the database does not answer, because of err.
func Unavailable(err error) *fault.Error {
	return fault.New(fault.Unavailable, CodeDatabaseUnavailable, "the database does not answer").WithCause(err)
}

// PoolerInTheWay says that sessions do not reach PostgreSQL as they are.
func PoolerInTheWay() *fault.Error {
	return fault.New(fault.Environment, CodeDatabasePooler, "a connection pooler stands between this node and PostgreSQL").
		WithHint("give the direct address of the database: its locks and prepared statements belong to a session")
}

// Classify turns what pgx returned into what store.Store promises: kind Unavailable for what is worth another try. A fault
// stays as it is, and so do nil and what is none of these.
func Classify(err error) error {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return classifyServer(pg, err)
	}
	_, network := errors.AsType[net.Error](err)
	_, connect := errors.AsType[*pgconn.ConnectError](err)
	if network || connect || pgconn.Timeout(err) || pgconn.SafeToRetry(err) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) {
		return Unavailable(err)
	}
	return err
}

func classifyServer(pg *pgconn.PgError, err error) error {
	switch pg.Code {
	case "53100": // disk_full
		return fault.New(fault.Limit, queue.CodeStorageFull, "the database has no space left").
			WithHint("free disk space, or let the queues drain").WithCause(err)
	case "25006": // read_only_sql_transaction
		return fault.New(fault.Unavailable, CodeDatabaseReadOnly, "the database takes no writes").
			WithHint("it is a standby, or its size limit switched it to read-only").WithCause(err)
	case "42501": // insufficient_privilege
		return fault.New(fault.Environment, CodeDatabaseRights, "the database role lacks a right: %s", pg.Message).
			WithHint("connect as the role that created the schema runlot_queue").WithCause(err)
	case "08P01": // protocol_violation: a pooler refuses the settings of a session
		return PoolerInTheWay().WithCause(err)
	case "3D000": // invalid_catalog_name
		return fault.New(fault.Environment, CodeDatabaseURL, "%s", pg.Message).
			WithHint("create the database, or correct its URL").WithCause(err)
	case "57014", // query_canceled
		"57P01", "57P02", "57P03", "57P05", // admin_shutdown, crash_shutdown, cannot_connect_now, idle_session_timeout
		"55P03": // lock_not_available
		return Unavailable(err)
	}
	switch {
	case strings.HasPrefix(pg.Code, "28"): // invalid authorization
		return fault.New(fault.Environment, CodeDatabaseURL, "the database refuses the login: %s", pg.Message).
			WithHint("correct user and password of the database URL").WithCause(err)
	case strings.HasPrefix(pg.Code, "08"), // connection exception
		strings.HasPrefix(pg.Code, "40"), // transaction rollback: deadlock, serialization
		strings.HasPrefix(pg.Code, "53"): // insufficient resources
		return Unavailable(err)
	}
	return err
}
