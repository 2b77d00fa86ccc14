package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/ncruces/go-sqlite3"

	"github.com/runlot/runlot/internal/core/d1"
)

// codes are the names of SQLite's result codes.
var codes = map[sqlite3.ErrorCode]string{
	sqlite3.ERROR: "SQLITE_ERROR", sqlite3.INTERNAL: "SQLITE_INTERNAL", sqlite3.PERM: "SQLITE_PERM", sqlite3.ABORT: "SQLITE_ABORT",
	sqlite3.BUSY: "SQLITE_BUSY", sqlite3.LOCKED: "SQLITE_LOCKED", sqlite3.NOMEM: "SQLITE_NOMEM", sqlite3.READONLY: "SQLITE_READONLY",
	sqlite3.INTERRUPT: "SQLITE_INTERRUPT", sqlite3.IOERR: "SQLITE_IOERR", sqlite3.CORRUPT: "SQLITE_CORRUPT",
	sqlite3.NOTFOUND: "SQLITE_NOTFOUND", sqlite3.FULL: "SQLITE_FULL", sqlite3.CANTOPEN: "SQLITE_CANTOPEN",
	sqlite3.PROTOCOL: "SQLITE_PROTOCOL", sqlite3.SCHEMA: "SQLITE_SCHEMA", sqlite3.TOOBIG: "SQLITE_TOOBIG",
	sqlite3.CONSTRAINT: "SQLITE_CONSTRAINT", sqlite3.MISMATCH: "SQLITE_MISMATCH", sqlite3.MISUSE: "SQLITE_MISUSE",
	sqlite3.AUTH: "SQLITE_AUTH", sqlite3.RANGE: "SQLITE_RANGE", sqlite3.NOTADB: "SQLITE_NOTADB",
}

// constraints are the names of the extended codes that callers distinguish.
var constraints = map[sqlite3.ExtendedErrorCode]string{
	sqlite3.CONSTRAINT_CHECK: "SQLITE_CONSTRAINT_CHECK", sqlite3.CONSTRAINT_COMMITHOOK: "SQLITE_CONSTRAINT_COMMITHOOK",
	sqlite3.CONSTRAINT_FOREIGNKEY: "SQLITE_CONSTRAINT_FOREIGNKEY", sqlite3.CONSTRAINT_FUNCTION: "SQLITE_CONSTRAINT_FUNCTION",
	sqlite3.CONSTRAINT_NOTNULL: "SQLITE_CONSTRAINT_NOTNULL", sqlite3.CONSTRAINT_PRIMARYKEY: "SQLITE_CONSTRAINT_PRIMARYKEY",
	sqlite3.CONSTRAINT_TRIGGER: "SQLITE_CONSTRAINT_TRIGGER", sqlite3.CONSTRAINT_UNIQUE: "SQLITE_CONSTRAINT_UNIQUE",
	sqlite3.CONSTRAINT_VTAB: "SQLITE_CONSTRAINT_VTAB", sqlite3.CONSTRAINT_ROWID: "SQLITE_CONSTRAINT_ROWID",
	sqlite3.CONSTRAINT_PINNED: "SQLITE_CONSTRAINT_PINNED", sqlite3.CONSTRAINT_DATATYPE: "SQLITE_CONSTRAINT_DATATYPE",
}

// errTooLong is what SQLite says of a text beyond its limit.
var errTooLong = &d1.Error{Text: "statement too long: SQLITE_TOOBIG"}

// reasonOf is what SQLite says, without the name of its code before it.
func reasonOf(err error) string {
	e, ok := errors.AsType[*sqlite3.Error](err)
	if !ok {
		return strings.TrimPrefix(err.Error(), "sqlite3: ")
	}
	code := e.ExtendedCode().Error()
	if text := strings.TrimPrefix(strings.TrimPrefix(e.Error(), code), ": "); text != "" {
		return text
	}
	return strings.TrimPrefix(code, "sqlite3: ")
}

// explain puts an error of SQLite's into D1's form: the reason, the place in sql, and the names of the codes.
func explain(sql string, err error) string {
	var b strings.Builder
	b.WriteString(reasonOf(err))
	if e, ok := errors.AsType[*sqlite3.Error](err); ok && e.SQL() != "" && len(e.SQL()) <= len(sql) {
		fmt.Fprintf(&b, " at offset %d", len(sql)-len(e.SQL()))
	}
	code, ok := errors.AsType[sqlite3.ErrorCode](err)
	if !ok {
		return b.String()
	}
	if name := codes[code]; name != "" {
		b.WriteString(": " + name)
	}
	if extended, ok := errors.AsType[sqlite3.ExtendedErrorCode](err); ok && constraints[extended] != "" {
		b.WriteString(" (extended: " + constraints[extended] + ")")
	}
	return b.String()
}

// minFree is the space on a disk, in bytes, below which a write that did not fit is put down to the disk.
const minFree = 16 << 20

// explain knows beside that why a database is full: it has its largest size, or the disk has no room.
func (c *conn) explain(err error) string {
	if errors.Is(err, sqlite3.FULL) {
		var disk syscall.Statfs_t
		if syscall.Statfs(c.path, &disk) == nil && disk.Bavail*uint64(disk.Bsize) > minFree {
			return d1.Full
		}
	}
	return explain("", err)
}

// refused is the error of a statement that cannot be prepared.
func (c *conn) refused(sql string, err error) error {
	if c.guard.transaction {
		return &d1.Error{Text: d1.Transaction, Cause: err}
	}
	if errors.Is(err, sqlite3.INTERRUPT) {
		return err
	}
	return &d1.Error{Text: explain(sql, err), Cause: err}
}

// failed is the error of the query with this index.
func (c *conn) failed(ctx context.Context, index int, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("call of the D1 database: %w", ctx.Err())
	}
	if e, ok := errors.AsType[*d1.Error](err); ok {
		return &d1.Error{Text: e.Text, Query: index, Cause: e.Cause}
	}
	if errors.Is(err, sqlite3.INTERRUPT) {
		return &d1.Error{Text: d1.TooLate, Query: index, Cause: err}
	}
	return &d1.Error{Text: c.explain(err), Query: index, Cause: err}
}

// broken reports whether an error is none of the caller's but of the file or the disk under it.
func broken(err error) bool {
	for _, code := range []sqlite3.ErrorCode{sqlite3.IOERR, sqlite3.CORRUPT, sqlite3.NOTADB, sqlite3.CANTOPEN, sqlite3.READONLY, sqlite3.PROTOCOL} {
		if errors.Is(err, code) {
			return true
		}
	}
	e, ok := errors.AsType[*d1.Error](err)
	return ok && e.Text != d1.Full && errors.Is(err, sqlite3.FULL)
}

// outOfMemory is the error for the panic with which the library reports that SQLite has no memory left; nil for another.
func outOfMemory(reason any) error {
	err, ok := reason.(error)
	if !ok || !strings.Contains(err.Error(), "out of memory") {
		return nil
	}
	return &d1.Error{Text: "out of memory: SQLITE_NOMEM", Query: -1, Cause: err}
}
