// Package kv keeps KV namespaces in SQLite files, one for each identity.
package kv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/runlot/runlot/internal/adapter/sqlite/pool"
	"github.com/runlot/runlot/internal/core/kv"
	"github.com/runlot/runlot/internal/core/queue"
)

// The layout. Keys are BLOBs, so that their order is that of their bytes; the value is the last column, so that a list does
// not read it.
var layout = []string{`
CREATE TABLE entry (key BLOB NOT NULL, expiration INTEGER, metadata TEXT, value BLOB NOT NULL) STRICT;
CREATE UNIQUE INDEX entry_key ON entry (key);
CREATE INDEX entry_expiration ON entry (expiration) WHERE expiration IS NOT NULL;`, `
CREATE TABLE title (one INTEGER PRIMARY KEY CHECK (one = 1), title TEXT NOT NULL) STRICT;`}

const (
	fresh     = `(expiration IS NULL OR expiration > ?)`
	getSQL    = `SELECT coalesce(expiration, 0), metadata, length(value), CASE WHEN length(value) <= ? THEN value END FROM entry WHERE key = ? AND ` + fresh
	putSQL    = `INSERT INTO entry (key, expiration, metadata, value) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (key) DO UPDATE SET expiration = ?2, metadata = ?3, value = ?4`
	deleteSQL = `DELETE FROM entry WHERE key = ?`
	expireSQL = `DELETE FROM entry WHERE rowid IN (SELECT rowid FROM entry WHERE expiration <= ? ORDER BY expiration LIMIT ?)`
	listSQL   = `SELECT key, coalesce(expiration, 0), metadata FROM entry WHERE key > ? AND key >= ? AND ` + fresh + ` ORDER BY key LIMIT ?`
	boundSQL  = `SELECT key, coalesce(expiration, 0), metadata FROM entry WHERE key > ? AND key >= ? AND key < ? AND ` + fresh + ` ORDER BY key LIMIT ?`
)

// Namespaces are the KV namespaces of one folder. Its methods may be called from several goroutines. Every read sees every
// write that has returned before it.
type Namespaces struct {
	*pool.Pool
	now func() time.Time
}

// New returns the namespaces in a folder, which is made at the first use. log takes what callers must not see.
func New(dir string, log *slog.Logger) *Namespaces {
	return &Namespaces{Pool: pool.New(pool.Options{Dir: dir, What: "KV namespace", Layout: layout, Log: log}), now: time.Now}
}

// Get returns the entry of a key; nil when there is none. A value of more than most bytes is left out, and its size in bytes
// is returned beside the entry.
func (n *Namespaces) Get(ctx context.Context, identity, key string, most int) (entry *kv.Entry, size int, err error) {
	if !n.Exists(identity) {
		return nil, 0, nil
	}
	err = n.Read(ctx, identity, func(c *pool.Conn) error {
		return c.Query(getSQL, []any{int64(most), []byte(key), n.now().Unix()}, func(s *sqlite3.Stmt) error {
			entry = &kv.Entry{Key: kv.Key{Name: key, Expiration: s.ColumnInt64(0), Metadata: metadata(s, 1)}}
			size = s.ColumnInt(2)
			if size <= most {
				entry.Value = s.ColumnBlob(3, []byte{})
			}
			return nil
		})
	})
	return entry, size, err
}

// GetMany returns the entries of those keys that are there, as they are at one moment. Values of more than most bytes
// together are refused.
func (n *Namespaces) GetMany(ctx context.Context, identity string, keys []string, most int) (map[string]*kv.Entry, error) {
	found := make(map[string]*kv.Entry, len(keys))
	if !n.Exists(identity) {
		return found, nil
	}
	now := n.now().Unix()
	err := n.Read(ctx, identity, func(c *pool.Conn) error {
		room := most
		for _, key := range keys {
			err := c.Query(getSQL, []any{int64(room), []byte(key), now}, func(s *sqlite3.Stmt) error {
				if room -= s.ColumnInt(2); room < 0 {
					return &kv.Error{Status: 413, Text: fmt.Sprintf("Total size of request exceeds the limit of %d bytes.", most)}
				}
				found[key] = &kv.Entry{
					Key:   kv.Key{Name: key, Expiration: s.ColumnInt64(0), Metadata: metadata(s, 1)},
					Value: s.ColumnBlob(3, []byte{}),
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return found, err
}

// Put sets the entry of a key and returns when that is on the disk.
func (n *Namespaces) Put(ctx context.Context, identity string, e *kv.Entry) error {
	return n.PutMany(ctx, identity, []*kv.Entry{e})
}

// PutMany sets entries, all or none, and returns when they are on the disk.
func (n *Namespaces) PutMany(ctx context.Context, identity string, entries []*kv.Entry) error {
	err := n.Write(ctx, identity, func(c *pool.Conn) error {
		if err := n.expire(c); err != nil {
			return err
		}
		for _, e := range entries {
			var expiration, about any
			if e.Expiration != 0 {
				expiration = e.Expiration
			}
			if e.Metadata != nil {
				about = string(e.Metadata)
			}
			if err := c.Query(putSQL, []any{[]byte(e.Name), expiration, about, e.Value}, nil); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, sqlite3.FULL) {
		return fmt.Errorf("%w: %w", kv.ErrFull, err)
	}
	return err
}

// Delete deletes a key, which need not exist, and returns when that is on the disk.
func (n *Namespaces) Delete(ctx context.Context, identity, key string) error {
	return n.DeleteMany(ctx, identity, []string{key})
}

// DeleteMany deletes keys, all or none, and returns when that is on the disk.
func (n *Namespaces) DeleteMany(ctx context.Context, identity string, keys []string) error {
	if !n.Exists(identity) {
		return nil
	}
	return n.Write(ctx, identity, func(c *pool.Conn) error {
		if err := n.expire(c); err != nil {
			return err
		}
		for _, key := range keys {
			if err := c.Query(deleteSQL, []any{[]byte(key)}, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// expire deletes a few keys that are gone, with each write.
func (n *Namespaces) expire(c *pool.Conn) error {
	return c.Query(expireSQL, []any{n.now().Unix(), int64(queue.KVExpiredRows)}, nil)
}

// List returns keys in the order of their bytes.
func (n *Namespaces) List(ctx context.Context, identity string, q kv.Query) (*kv.Page, error) {
	page := &kv.Page{Complete: true}
	if !n.Exists(identity) {
		return page, nil
	}
	sql, params := listSQL, []any{[]byte(q.After), []byte(q.Prefix)}
	if end := after(q.Prefix); end != nil {
		sql, params = boundSQL, append(params, end)
	}
	params = append(params, n.now().Unix(), int64(q.Limit)+1)
	err := n.Read(ctx, identity, func(c *pool.Conn) error {
		return c.Query(sql, params, func(s *sqlite3.Stmt) error {
			if len(page.Keys) == q.Limit {
				page.Complete = false
				return nil
			}
			page.Keys = append(page.Keys, kv.Key{Name: string(s.ColumnRawBlob(0)), Expiration: s.ColumnInt64(1), Metadata: metadata(s, 2)})
			return nil
		})
	})
	return page, err
}

// after is the first text behind all that begin with a prefix; nil when there is none.
func after(prefix string) []byte {
	end := []byte(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return nil
}

func metadata(s *sqlite3.Stmt, column int) []byte {
	if s.ColumnType(column) == sqlite3.NULL {
		return nil
	}
	return []byte(s.ColumnText(column))
}
