package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/runlot/runlot/internal/core/d1"
	"github.com/runlot/runlot/internal/core/fault"
)

// backupPages is how many pages are copied between two looks at the context.
const backupPages = 1_000

// Backup copies a database, as it is at one moment between two calls, into a new file, which is whole and synced when
// Backup returns and absent when it fails. Calls go on meanwhile. A database that was never used is not_found, a file
// that exists a conflict.
func (d *Databases) Backup(ctx context.Context, identity, path string) error {
	if !d.Exists(identity) {
		return fault.New(fault.NotFound, "d1_missing", "there is no D1 database %s", identity).WithHint("it is made when it is used first")
	}
	return Copy(ctx, "the D1 database "+identity, d.Path(identity), path)
}

// Files returns the names of the files of all databases that were ever used. A missing folder has none.
func (d *Databases) Files() ([]string, error) { return FilesIn(d.o.Dir) }

// FilesIn returns the names of the database files in a folder. A missing folder has none.
func FilesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && filepath.Ext(e.Name()) == filepath.Ext(d1.FileName("")) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// BackupFile is Backup for a database that is known by its file, one of Files.
func (d *Databases) BackupFile(ctx context.Context, name, path string) error {
	return Copy(ctx, "the D1 database "+name, filepath.Join(d.o.Dir, name), path)
}

// Copy copies the SQLite database in a file, as it is at one moment between two transactions, into a new file, which is whole
// and synced when Copy returns and absent when it fails. Who uses the database goes on meanwhile. what names it in errors.
func Copy(ctx context.Context, what, source, path string) (err error) {
	if _, err := os.Lstat(path); err == nil {
		return fault.New(fault.Conflict, "backup_exists", "%s exists already", path).WithHint("name a new file")
	}
	part := path + ".part"
	defer func() {
		if err != nil {
			_ = os.Remove(part) // it may not be there
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			err = fmt.Errorf("back up %s: %w", what, err)
		}
	}()
	if err := copyDatabase(ctx, source, part); err != nil {
		return err
	}
	if err := syncFile(part); err != nil {
		return err
	}
	if err := os.Rename(part, path); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(path))
}

// copyDatabase copies under a read transaction, so that what is written meanwhile is not seen and begins nothing anew.
func copyDatabase(ctx context.Context, source, target string) (err error) {
	c, err := openRaw(ctx, source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.Exec("BEGIN; SELECT count(*) FROM sqlite_schema"); err != nil {
		return err
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	b, err := c.BackupInit("main", target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	for done := false; !done; {
		if err := ctx.Err(); err != nil {
			return err
		}
		if done, err = b.Step(backupPages); err != nil {
			return err
		}
	}
	return nil
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// SyncFolder makes the names in a folder last.
func SyncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
