// Package d1 is what a D1 database is asked and what it answers, and the rules for both that need no database: where a
// statement ends, which identity has which file name.
package d1

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
)

// Query is one text of SQL with the values of its parameters. The text may hold several statements: the parameters and
// the rows that come back are then those of the last one.
type Query struct {
	SQL    string
	Params []Value
}

// Value is nil, int64, float64, string or []byte. A parameter is never an int64: a number of JavaScript is a double, and
// D1 binds it as REAL, which a column with the affinity INTEGER turns into an integer where nothing is lost.
type Value any

// Result is what a query returned.
type Result struct {
	// Columns are the names of the columns of Rows; empty when the last statement returns no rows.
	Columns []string
	Rows    [][]Value
	Meta    Meta
}

// Meta is what D1 says about a query beside its rows.
type Meta struct {
	// Milliseconds is the time that the query took in the database.
	Milliseconds float64
	// Changes counts inserted, changed and deleted rows, those of triggers and cascades too.
	Changes int64
	// LastRowID is the row id of the last insert of the connection, 0 before the first.
	LastRowID int64
	// SizeAfter is the size of the database in bytes.
	SizeAfter int64
	// Changed says that the query wrote.
	Changed bool
	// RowsRead and RowsWritten estimate what D1 counts: rows returned or stepped over by scans of whole tables, and rows
	// changed. What an index reads or writes is not counted.
	RowsRead, RowsWritten int64
}

// Error is a failure that the caller sees in D1's words, without the prefix that its client library puts before them.
type Error struct {
	Text string
	// Query is the index of the query that failed; -1 when it was none of them.
	Query int
	// Cause is for the log; it may be nil.
	Cause error
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

// Unwrap gives the cause to errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Cause }

// Texts of errors that are D1's own and not SQLite's.
const (
	// NoStatement: a call with nothing to run.
	NoStatement = "No SQL statements detected."
	// WrongParams: more or fewer values than the statement has parameters.
	WrongParams = "Wrong number of parameter bindings for SQL query."
	// TooLate: a statement ran out of its time.
	TooLate = "D1 DB storage operation exceeded timeout which caused object to be reset."
	// QueuedLong: a call waited too long for those before it.
	QueuedLong = "D1 DB is overloaded. Requests queued for too long."
	// QueuedMany: too many calls wait.
	QueuedMany = "D1 DB is overloaded. Too many requests queued."
	// ReadOnly: SQL that writes, from one who may only read.
	ReadOnly = "This statement writes, and the call may only read."
	// Full: the database has reached its largest size.
	Full = "Exceeded maximum DB size."
	// Transaction: SQL tried to begin or end a transaction.
	Transaction = "To execute a transaction, please use batch() instead of the SQL BEGIN TRANSACTION or SAVEPOINT statements: " +
		"all statements of a batch succeed or fail together."
)

// plain are the identities that are a file name as they stand, on every file system.
var plain = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,99}$`)

// FileName returns the name of the file that holds the database of an identity. Different identities have different
// names; one that is no plain name is hashed.
func FileName(identity string) string {
	if plain.MatchString(identity) {
		return identity + ".sqlite"
	}
	sum := sha256.Sum256([]byte(identity))
	return "sha256." + hex.EncodeToString(sum[:16]) + ".sqlite"
}
