package r2

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/runlot/runlot/internal/adapter/sqlite/pool"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/r2"
)

// Names are those of the buckets that were ever used, or made.
func (b *Buckets) Names() ([]string, error) {
	files, err := b.Files()
	var names []string
	for _, file := range files {
		if name := strings.TrimSuffix(file, filepath.Ext(file)); r2.ValidBucket(name) && filepath.Base(b.Path(name)) == file {
			names = append(names, name)
		}
	}
	return names, err
}

// Make makes a bucket; one that is there stays as it is.
func (b *Buckets) Make(ctx context.Context, bucket string) error {
	return b.Write(ctx, bucket, func(*pool.Conn) error { return nil })
}

// Created is when the file of a bucket was made; zero when there is none.
func (b *Buckets) Created(ctx context.Context, bucket string) (at time.Time, err error) {
	if !b.Exists(bucket) {
		return time.Time{}, nil
	}
	err = b.Read(ctx, bucket, func(c *pool.Conn) error {
		return c.Query("SELECT at FROM made", nil, func(s *sqlite3.Stmt) error {
			at = time.UnixMilli(s.ColumnInt64(0)).UTC()
			return nil
		})
	})
	return at, err
}

// Totals counts the objects of a bucket and the bytes of their bodies.
func (b *Buckets) Totals(ctx context.Context, bucket string) (objects, bytes int64, err error) {
	if !b.Exists(bucket) {
		return 0, 0, nil
	}
	err = b.Read(ctx, bucket, func(c *pool.Conn) error {
		return c.Query("SELECT count(*), coalesce(sum(size), 0) FROM object", nil, func(s *sqlite3.Stmt) error {
			objects, bytes = s.ColumnInt64(0), s.ColumnInt64(1)
			return nil
		})
	})
	return objects, bytes, err
}

// Drop deletes a bucket that has no objects, with its rules and its unfinished uploads. One whose events wait to be told is
// kept.
func (b *Buckets) Drop(ctx context.Context, bucket string) error {
	if !b.Exists(bucket) {
		return nil
	}
	held, err := lock(b.dir, syscall.LOCK_EX)
	if err != nil {
		return err
	}
	if held == nil {
		return fault.New(fault.Conflict, "r2_backup", "the bucket %s is being copied to a backup", bucket).WithHint("delete it when that has ended")
	}
	defer held.Close()
	return b.Remove(ctx, bucket, func(c *pool.Conn) error {
		if err := mayGo(c, bucket); err != nil {
			return err
		}
		return b.shed(c, bucket)
	})
}

// mayGo refuses a bucket that has something which must not be lost.
func mayGo(c *pool.Conn, bucket string) error {
	objects, events := false, ""
	err := errors.Join(
		c.Query("SELECT 1 FROM object LIMIT 1", nil, func(*sqlite3.Stmt) error {
			objects = true
			return nil
		}),
		c.Query("SELECT json_extract(destination, '$.queue') FROM outbox UNION ALL SELECT json_extract(destinations, '$[0].queue') FROM intent LIMIT 1", nil, func(s *sqlite3.Stmt) error {
			events = s.ColumnText(0)
			return nil
		}),
	)
	switch {
	case err != nil:
		return err
	case objects:
		return r2.NotEmpty()
	case events != "":
		return fault.New(fault.Conflict, "r2_events", "events of the bucket %s wait for the queue %s", bucket, events).WithHint("see that the queue takes messages")
	}
	return nil
}

// shed deletes the bodies that a bucket without objects has. A body that arrives at this moment stays for its put.
func (b *Buckets) shed(c *pool.Conn, bucket string) error {
	var uploads, blobs []string
	collect := func(list *[]string) func(*sqlite3.Stmt) error {
		return func(s *sqlite3.Stmt) error {
			*list = append(*list, s.ColumnText(0))
			return nil
		}
	}
	if err := c.Query("SELECT id FROM upload", nil, collect(&uploads)); err != nil {
		return err
	}
	for _, id := range uploads {
		if err := giveUp(c, id); err != nil {
			return err
		}
	}
	if err := c.Query("SELECT blob FROM doomed", nil, collect(&blobs)); err != nil {
		return err
	}
	for _, blob := range blobs {
		path := place(b.folder(bucket), blob)
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		_ = os.Remove(filepath.Dir(path)) // while it has others, it stays
	}
	_ = os.Remove(filepath.Join(b.folder(bucket), temporaryFolder))
	_ = os.Remove(b.folder(bucket))
	return nil
}
