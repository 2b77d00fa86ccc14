package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/ext/fts5"

	"github.com/runlot/runlot/internal/core/d1"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// conn is an open database as its callers may use it.
type conn struct {
	*sqlite3.Conn
	path          string
	guard         guard
	statementTime time.Duration
	pageSize      int64
	pageCount     *sqlite3.Stmt
	// readOnly says that the call under way may not write.
	readOnly bool
	// spent says that a call has left something behind, such as a setting: the connection serves no other.
	spent bool
}

// open opens a database for callers, and makes it when it does not exist.
func open(ctx context.Context, path string, maxBytes int64) (_ *conn, err error) {
	_, missing := os.Lstat(path)
	raw, err := openRaw(ctx, path)
	if err != nil {
		return nil, openError(path, err)
	}
	c := &conn{Conn: raw, path: path, statementTime: queue.D1StatementTime}
	defer func() {
		if err != nil {
			err = openError(path, errors.Join(err, c.Close()))
		}
	}()
	// Of a new database only: deleted rows give their space back, since callers cannot VACUUM.
	err = raw.Exec("PRAGMA auto_vacuum=FULL")
	mode := ""
	if err == nil {
		mode, err = c.text("PRAGMA journal_mode=WAL")
	}
	if err == nil && mode != "wal" {
		err = fmt.Errorf("the journal mode is %s: %w", mode, errNoWAL)
	}
	if err != nil {
		return nil, err
	}
	if err := raw.Exec("PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON"); err != nil {
		return nil, err
	}
	if c.pageSize, err = c.number("PRAGMA page_size"); err != nil {
		return nil, err
	}
	if _, err := c.number(fmt.Sprintf("PRAGMA max_page_count=%d", max(1, maxBytes/c.pageSize))); err != nil {
		return nil, err
	}
	if c.pageCount, _, err = raw.Prepare("PRAGMA page_count"); err != nil {
		return nil, err
	}
	if missing != nil {
		if err := SyncFolder(filepath.Dir(path)); err != nil {
			return nil, err
		}
	}
	raw.HardHeapLimit(queue.D1MemoryBytes)
	raw.SetInterrupt(context.Background())
	return c, c.restrict()
}

// openRaw opens a file with what this program itself needs of it, unrestricted.
func openRaw(ctx context.Context, path string) (*sqlite3.Conn, error) {
	raw, err := sqlite3.OpenFlags(path, sqlite3.OPEN_READWRITE|sqlite3.OPEN_CREATE|sqlite3.OPEN_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	raw.SetInterrupt(ctx)
	if err := errors.Join(raw.BusyTimeout(queue.D1BusyTime), fts5.Register(raw)); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return raw, nil
}

// Close ends what a call left unfinished, which is rolled back, and closes the database.
func (c *conn) Close() error {
	c.HardHeapLimit(0) // room to clean up in
	c.SetInterrupt(context.Background())
	for _, stmt := range slices.Collect(c.Stmts()) {
		abandon(stmt)
	}
	return c.Conn.Close()
}

// abandon closes a statement whose last step may have failed in any way, which closing it would report again.
func abandon(stmt *sqlite3.Stmt) {
	defer func() {
		if reason := recover(); reason != nil && outOfMemory(reason) == nil {
			panic(reason)
		}
	}()
	_ = stmt.Close()
}

// errNoWAL is a file system that lacks what the write-ahead log needs.
var errNoWAL = errors.New("the file system has no shared memory for the write-ahead log")

// openError says why a database cannot be opened: what the caller's cancellation did is no fault, and neither is what
// holds for the file.
func openError(path string, err error) error {
	switch {
	case errors.Is(err, sqlite3.INTERRUPT):
		return context.Canceled
	case errors.Is(err, sqlite3.NOTADB), errors.Is(err, sqlite3.CORRUPT):
		return &d1.Error{Text: explain("", err), Query: -1, Cause: fmt.Errorf("%s: %w", path, err)}
	}
	return fault.New(fault.Environment, "d1_open", "the D1 database %s cannot be opened: %s", path, reasonOf(err)).
		WithHint("look at the rights of the file, the space on the disk, and whether the folder is on a local disk").WithCause(err)
}

// number returns the number that a statement of this program returns.
func (c *conn) number(sql string) (int64, error) {
	var n int64
	err := c.first(sql, func(s *sqlite3.Stmt) { n = s.ColumnInt64(0) })
	return n, err
}

func (c *conn) text(sql string) (string, error) {
	var text string
	err := c.first(sql, func(s *sqlite3.Stmt) { text = s.ColumnText(0) })
	return text, err
}

func (c *conn) first(sql string, take func(*sqlite3.Stmt)) error {
	stmt, _, err := c.Prepare(sql)
	if err != nil {
		return err
	}
	if stmt.Step() {
		take(stmt)
	}
	return stmt.Close()
}

// own runs a statement of this program, to which the rules for callers do not apply, and which nothing interrupts.
func (c *conn) own(sql string) error {
	old := c.SetInterrupt(context.Background())
	c.guard.off = true
	err := c.Exec(sql)
	c.guard.off = false
	c.SetInterrupt(old)
	return err
}

// begin begins the transaction of a call. It waits for another process that writes, as long as the caller does.
func (c *conn) begin() error {
	c.guard.off = true
	defer func() { c.guard.off = false }()
	if c.readOnly {
		return c.Exec("BEGIN")
	}
	return c.Exec("BEGIN IMMEDIATE")
}

// call runs the queries as one transaction. readOnly refuses those that write.
func (c *conn) call(ctx context.Context, queries []d1.Query, readOnly bool) ([]d1.Result, error) {
	c.guard.settings = false
	if c.readOnly = readOnly; readOnly {
		// Each statement is looked at; this is for what has an effect of which it does not tell.
		if err := c.own("PRAGMA query_only=ON"); err != nil {
			return nil, &d1.Error{Text: c.explain(err), Query: -1, Cause: err}
		}
		defer func() { c.spent = c.own("PRAGMA query_only=OFF") != nil || c.spent }()
	}
	results, err := c.all(ctx, queries)
	if err == nil && ctx.Err() != nil {
		err = fmt.Errorf("call of the D1 database: %w", ctx.Err())
	}
	if !c.GetAutocommit() {
		end := "COMMIT"
		if err != nil {
			end = "ROLLBACK"
		}
		if endErr := c.own(end); endErr != nil && err == nil {
			err = &d1.Error{Text: c.explain(endErr), Query: -1, Cause: endErr}
		}
		if !c.GetAutocommit() {
			c.spent = c.spent || c.own("ROLLBACK") != nil
		}
	}
	c.spent = c.spent || c.guard.settings
	if err != nil {
		return nil, err
	}
	return results, nil
}

// all runs the queries one after the other.
func (c *conn) all(ctx context.Context, queries []d1.Query) ([]d1.Result, error) {
	results := make([]d1.Result, 0, len(queries))
	room := queue.D1ResultBytes
	for i := range queries {
		q := &queries[i]
		if d1.Blank(q.SQL) {
			continue
		}
		r, err := c.query(ctx, q, len(queries) == 1, &room)
		if err != nil {
			return nil, c.failed(ctx, i, err)
		}
		results = append(results, *r)
	}
	if len(results) == 0 {
		return nil, &d1.Error{Text: d1.NoStatement, Query: -1}
	}
	return results, nil
}

// query runs the statements of one query. A query that is the only one and only reads needs no transaction.
func (c *conn) query(ctx context.Context, q *d1.Query, only bool, room *int) (*d1.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, c.statementTime)
	defer cancel()
	defer c.SetInterrupt(c.SetInterrupt(ctx))
	began := time.Now()
	changes, row := c.TotalChanges(), c.LastInsertRowID()
	size, err := c.size()
	if err != nil {
		return nil, err
	}
	r := &d1.Result{}
	rest, _, _ := strings.Cut(q.SQL, "\x00") // where SQLite stops to read
	if len(rest) > queue.D1SQLBytes {
		return nil, errTooLong
	}
	only = only && d1.StartsWith(rest, "SELECT", "WITH", "VALUES")
	for last := false; !last; {
		if c.GetAutocommit() && !only { // already to prepare a statement can have an effect
			if err := c.begin(); err != nil {
				return nil, err
			}
		}
		c.guard.prepare()
		stmt, tail, err := c.Prepare(rest)
		if err != nil {
			return nil, c.refused(rest, err)
		}
		if stmt == nil {
			break
		}
		if c.readOnly && !stmt.ReadOnly() {
			return nil, errors.Join(&d1.Error{Text: d1.ReadOnly}, stmt.Close())
		}
		last = d1.Blank(tail)
		rest = tail
		reads := c.guard.selects && stmt.ReadOnly()
		only = only && last
		if c.GetAutocommit() && (!only || !reads) {
			err = c.begin()
		}
		if err == nil {
			err = c.step(stmt, q, last, r, room)
		}
		if closeErr := stmt.Close(); err == nil { // else it says the same again
			err = closeErr
		}
		if err != nil {
			return nil, err
		}
	}
	after, err := c.size()
	if err != nil {
		return nil, err
	}
	r.Meta.Milliseconds = float64(time.Since(began).Microseconds()) / 1000
	r.Meta.Changes, r.Meta.LastRowID, r.Meta.SizeAfter = c.TotalChanges()-changes, c.LastInsertRowID(), after
	r.Meta.Changed = r.Meta.Changes != 0 || r.Meta.LastRowID != row || after != size
	r.Meta.RowsWritten = r.Meta.Changes
	return r, nil
}

// step binds the parameters, which belong to the last statement, and takes the rows.
func (c *conn) step(stmt *sqlite3.Stmt, q *d1.Query, last bool, r *d1.Result, room *int) error {
	params := q.Params
	if !last {
		params = nil
	}
	if stmt.BindCount() != len(params) {
		return &d1.Error{Text: d1.WrongParams}
	}
	for i, p := range params {
		if err := bind(stmt, i+1, p); err != nil {
			return err
		}
	}
	columns := stmt.ColumnCount()
	if last && columns > 0 {
		r.Columns = make([]string, columns)
		for i := range r.Columns {
			r.Columns[i] = stmt.ColumnName(i)
		}
	}
	returned := int64(0)
	for stmt.Step() {
		returned++
		if !last {
			continue
		}
		row := make([]d1.Value, columns)
		for i := range row {
			row[i] = column(stmt, i)
			*room -= weight(row[i])
		}
		if r.Rows = append(r.Rows, row); *room < 0 {
			return &d1.Error{Text: fmt.Sprintf("The result is larger than %d bytes: select fewer rows at a time.", queue.D1ResultBytes)}
		}
	}
	read := int64(stmt.Status(sqlite3.STMTSTATUS_FULLSCAN_STEP, false))
	if read > 0 {
		read++
	}
	if stmt.ReadOnly() && c.guard.reads {
		read = max(read, returned)
	}
	r.Meta.RowsRead += read
	return stmt.Err()
}

// size returns the size of the database in bytes.
func (c *conn) size() (int64, error) {
	c.guard.off = true
	defer func() { c.guard.off = false }()
	if !c.pageCount.Step() {
		return 0, errors.Join(c.pageCount.Err(), c.pageCount.Reset())
	}
	pages := c.pageCount.ColumnInt64(0)
	return pages * c.pageSize, c.pageCount.Reset()
}

func bind(stmt *sqlite3.Stmt, at int, v d1.Value) error {
	switch v := v.(type) {
	case nil:
		return stmt.BindNull(at)
	case float64:
		return stmt.BindFloat(at, v)
	case int64:
		return stmt.BindInt64(at, v)
	case string:
		if len(v) > queue.D1ValueBytes {
			return sqlite3.TOOBIG
		}
		return stmt.BindText(at, v)
	case []byte:
		if len(v) > queue.D1ValueBytes {
			return sqlite3.TOOBIG
		}
		if len(v) == 0 {
			return stmt.BindZeroBlob(at, 0)
		}
		return stmt.BindBlob(at, v)
	default:
		return fmt.Errorf("a parameter of the type %T: %w", v, errors.ErrUnsupported)
	}
}

func column(stmt *sqlite3.Stmt, at int) d1.Value {
	switch stmt.ColumnType(at) {
	case sqlite3.INTEGER:
		return stmt.ColumnInt64(at)
	case sqlite3.FLOAT:
		return stmt.ColumnFloat(at)
	case sqlite3.TEXT:
		return stmt.ColumnText(at)
	case sqlite3.BLOB:
		return stmt.ColumnBlob(at, []byte{})
	case sqlite3.NULL:
	}
	return nil
}

// weight is about what a value takes as JSON, in bytes.
func weight(v d1.Value) int {
	switch v := v.(type) {
	case string:
		return len(v) + 3
	case []byte:
		return 4*len(v) + 3
	default:
		return 16
	}
}
