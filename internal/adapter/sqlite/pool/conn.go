package pool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ncruces/go-sqlite3"

	"github.com/runlot/runlot/internal/adapter/sqlite"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Conn is an open file. It keeps the statements that it has prepared.
type Conn struct {
	*sqlite3.Conn
	prepared map[string]*sqlite3.Stmt
	// spent says that a call has left something behind: the connection serves no other.
	spent bool
}

// errNoWAL is a file system that lacks what the write-ahead log needs.
var errNoWAL = errors.New("the file system has no shared memory for the write-ahead log")

// errNewer is a file of a later release.
var errNewer = errors.New("a newer release has changed its tables")

// open opens the file unless it is open, and makes it when it does not exist.
func (p *Pool) open(f *file) error {
	if f.conn != nil {
		return nil
	}
	if err := os.MkdirAll(p.o.Dir, 0o700); err != nil {
		return p.unusable(f.path, err)
	}
	raw, err := sqlite3.OpenFlags(f.path, sqlite3.OPEN_READWRITE|sqlite3.OPEN_CREATE|sqlite3.OPEN_NOFOLLOW)
	if err != nil {
		return p.unusable(f.path, err)
	}
	c := &Conn{Conn: raw, prepared: map[string]*sqlite3.Stmt{}}
	if err := c.prepare(p.o.Layout); err != nil {
		return p.unusable(f.path, errors.Join(err, c.Close()))
	}
	if err := sqlite.SyncFolder(filepath.Dir(f.path)); err != nil {
		return p.unusable(f.path, errors.Join(err, c.Close()))
	}
	f.conn = c
	return nil
}

func (p *Pool) unusable(path string, err error) error {
	return fault.New(fault.Environment, "store_open", "the %s %s cannot be opened: %s", p.o.What, path, err).
		WithHint("look at the rights of the file, the space on the disk, and whether the folder is on a local disk").WithCause(err)
}

// prepare puts the settings and the tables in place.
func (c *Conn) prepare(layout []string) error {
	if err := c.BusyTimeout(queue.D1BusyTime); err != nil {
		return err
	}
	// Of a new file only: what is deleted gives its space back.
	if err := c.Exec("PRAGMA auto_vacuum=FULL"); err != nil {
		return err
	}
	mode := ""
	err := c.Query("PRAGMA journal_mode=WAL", nil, func(s *sqlite3.Stmt) error {
		mode = s.ColumnText(0)
		return nil
	})
	if err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("the journal mode is %s: %w", mode, errNoWAL)
	}
	if err := c.Exec("PRAGMA synchronous=FULL; PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON"); err != nil {
		return err
	}
	version := 0
	err = c.Query("PRAGMA user_version", nil, func(s *sqlite3.Stmt) error {
		version = s.ColumnInt(0)
		return nil
	})
	if err != nil {
		return err
	}
	if version > len(layout) {
		return errNewer
	}
	for ; version < len(layout); version++ {
		if err := c.Exec(fmt.Sprintf("BEGIN IMMEDIATE; %s; PRAGMA user_version=%d; COMMIT", layout[version], version+1)); err != nil {
			return err
		}
	}
	return nil
}

// Query runs a statement with the values of its parameters, each nil, an int64, a string or a []byte, and calls each, unless
// that is nil, for every row. SQL is kept prepared: it is one of few texts.
func (c *Conn) Query(sql string, params []any, each func(*sqlite3.Stmt) error) (err error) {
	s := c.prepared[sql]
	if s == nil {
		if s, _, err = c.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT); err != nil {
			return err
		}
		c.prepared[sql] = s
	}
	defer func() {
		err = errors.Join(err, s.ClearBindings())
		if resetErr := s.Reset(); err == nil { // else it says the same again
			err = resetErr
		}
	}()
	for i, value := range params {
		if err := bind(s, i+1, value); err != nil {
			return err
		}
	}
	for s.Step() {
		if each == nil {
			continue
		}
		if err := each(s); err != nil {
			return err
		}
	}
	return s.Err()
}

func bind(s *sqlite3.Stmt, at int, value any) error {
	switch v := value.(type) {
	case nil:
		return s.BindNull(at)
	case int64:
		return s.BindInt64(at, v)
	case string:
		return s.BindText(at, v)
	case []byte:
		if len(v) == 0 {
			return s.BindZeroBlob(at, 0)
		}
		return s.BindBlob(at, v)
	default:
		return fmt.Errorf("a parameter of the type %T: %w", v, errors.ErrUnsupported)
	}
}

// all makes the writes in one transaction, each as a whole, and sets their errors. An error of its own says that none of
// them is there.
func (c *Conn) all(group []*write) (err error) {
	if err := c.Exec("BEGIN IMMEDIATE"); err != nil {
		return errors.Join(err, c.rollBack())
	}
	for _, w := range group {
		if w.err = w.ctx.Err(); w.err != nil {
			continue
		}
		if w.err, err = c.one(w.do); err != nil {
			return errors.Join(err, c.rollBack())
		}
	}
	if err := c.Exec("COMMIT"); err != nil {
		return errors.Join(err, c.rollBack())
	}
	return nil
}

// one makes a write. The second error says that the whole transaction is gone.
func (c *Conn) one(do func(*Conn) error) (failed, broken error) {
	if err := c.Exec("SAVEPOINT one"); err != nil {
		return nil, err
	}
	failed = do(c)
	if failed != nil {
		if err := c.Exec("ROLLBACK TO one"); err != nil {
			return failed, errors.Join(failed, err)
		}
	}
	return failed, c.Exec("RELEASE one")
}

// rollBack ends a transaction that is open.
func (c *Conn) rollBack() error {
	if c.GetAutocommit() {
		return nil
	}
	err := c.Exec("ROLLBACK")
	c.spent = c.spent || err != nil
	return err
}

// Close closes the file.
func (c *Conn) Close() error {
	c.SetInterrupt(context.Background())
	var err error
	for _, s := range c.prepared {
		err = errors.Join(err, s.Close())
	}
	return errors.Join(err, c.Conn.Close())
}
