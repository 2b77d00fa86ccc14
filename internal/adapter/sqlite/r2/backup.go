package r2

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/runlot/runlot/internal/adapter/sqlite"
)

// lockEvery is the rhythm at which a backup tries to keep the bodies.
const lockEvery = 20 * time.Millisecond

// Backup hands each file of the buckets in a folder to each, with the name that it has there: for each bucket the bodies of
// its objects, as they are at one moment, and then a copy of what is known of them, which lies in scratch for as long. The
// buckets may be in use; bodies that nothing has any more stay on the disk meanwhile. A missing folder has none.
func Backup(ctx context.Context, dir, scratch string, each func(name, path string) error) error {
	names, err := sqlite.FilesIn(dir)
	if err != nil || len(names) == 0 {
		return err
	}
	held, err := share(ctx, dir)
	if err != nil {
		return err
	}
	defer held.Close()
	for _, name := range names {
		copied := filepath.Join(scratch, name)
		if err := sqlite.Copy(ctx, "the R2 bucket "+name, filepath.Join(dir, name), copied); err != nil {
			return err
		}
		if err := bodies(copied, func(blob string) error {
			folder := strings.TrimSuffix(name, filepath.Ext(name)) + folderSuffix
			return errors.Join(ctx.Err(), each(path.Join(folder, blob[:2], blob), place(filepath.Join(dir, folder), blob)))
		}); err != nil {
			return err
		}
		if err := errors.Join(each(name, copied), os.Remove(copied)); err != nil {
			return err
		}
	}
	return nil
}

// share keeps the bodies until the file is closed.
func share(ctx context.Context, dir string) (*os.File, error) {
	tick := time.NewTicker(lockEvery)
	defer tick.Stop()
	for {
		held, err := lock(dir, syscall.LOCK_SH)
		if err != nil || held != nil {
			return held, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// bodies calls each for every body that the objects and the uploads of a file have.
func bodies(file string, each func(blob string) error) (err error) {
	c, err := sqlite3.OpenFlags(file, sqlite3.OPEN_READWRITE|sqlite3.OPEN_NOFOLLOW)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	s, _, err := c.Prepare("SELECT pieces FROM object UNION ALL SELECT pieces FROM part")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for s.Step() {
		var pieces []piece
		if err := json.Unmarshal(s.ColumnRawText(0), &pieces); err != nil {
			return err
		}
		for _, p := range pieces {
			if err := each(p.Blob); err != nil {
				return err
			}
		}
	}
	return s.Err()
}
