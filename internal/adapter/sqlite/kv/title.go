package kv

import (
	"context"

	"github.com/ncruces/go-sqlite3"

	"github.com/runlot/runlot/internal/adapter/sqlite/pool"
)

// Title returns the title that a namespace was given; "" for none. It makes nothing.
func (n *Namespaces) Title(ctx context.Context, identity string) (title string, err error) {
	if !n.Exists(identity) {
		return "", nil
	}
	err = n.Read(ctx, identity, func(c *pool.Conn) error {
		return c.Query("SELECT title FROM title", nil, func(s *sqlite3.Stmt) error {
			title = s.ColumnText(0)
			return nil
		})
	})
	return title, err
}

// SetTitle gives a namespace a title, makes it when it does not exist, and returns when that is on the disk.
func (n *Namespaces) SetTitle(ctx context.Context, identity, title string) error {
	return n.Write(ctx, identity, func(c *pool.Conn) error {
		return c.Query("INSERT INTO title (one, title) VALUES (1, ?1) ON CONFLICT DO UPDATE SET title = ?1", []any{title}, nil)
	})
}

// Drop deletes a namespace with all of its keys.
func (n *Namespaces) Drop(ctx context.Context, identity string) error {
	return n.Remove(ctx, identity, func(*pool.Conn) error { return nil })
}
