package r2

import (
	"context"
	"encoding/json"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/runlot/runlot/internal/adapter/sqlite/pool"
	"github.com/runlot/runlot/internal/core/r2"
)

// Intend notes changes that are about to be made elsewhere, and gives those an ID of which a queue has to be told. It returns
// when that is on the disk.
func (b *Buckets) Intend(ctx context.Context, bucket string, intents []r2.Intent) error {
	wanted := false
	if !b.Exists(bucket) {
		return nil
	}
	err := b.Read(ctx, bucket, func(c *pool.Conn) error {
		for i := range intents {
			to, err := destinations(c, intents[i].Action, intents[i].Key)
			if err != nil {
				return err
			}
			wanted = wanted || len(to) > 0
		}
		return nil
	})
	if err != nil || !wanted {
		return err
	}
	return b.Write(ctx, bucket, func(c *pool.Conn) error {
		for i := range intents {
			one := &intents[i]
			to, err := destinations(c, one.Action, one.Key)
			if err != nil {
				return err
			}
			if len(to) == 0 {
				continue
			}
			text, err := json.Marshal(to)
			if err != nil {
				return err
			}
			one.At = b.now().Truncate(time.Millisecond)
			if err := c.Query("INSERT INTO intent (action, key, mark, at, destinations) VALUES (?, ?, ?, ?, ?)",
				[]any{one.Action, []byte(one.Key), one.Mark, one.At.UnixMilli(), string(text)}, nil); err != nil {
				return err
			}
			one.ID = c.LastInsertRowID()
		}
		return nil
	})
}

// Settle ends an intent: with the event that the queues are told, or with nil when the change was not made.
func (b *Buckets) Settle(ctx context.Context, bucket string, id int64, e *r2.Event) error {
	err := b.Write(ctx, bucket, func(c *pool.Conn) error {
		var to []r2.Destination
		err := c.Query("SELECT destinations FROM intent WHERE id = ?", []any{id}, func(s *sqlite3.Stmt) error {
			return json.Unmarshal(s.ColumnRawText(0), &to)
		})
		if err != nil {
			return err
		}
		if e != nil {
			if err := postTo(c, e, to); err != nil {
				return err
			}
		}
		return c.Query("DELETE FROM intent WHERE id = ?", []any{id}, nil)
	})
	if err == nil && e != nil {
		b.waiting(bucket)
	}
	return err
}

// Intents are those that were not settled, the oldest first.
func (b *Buckets) Intents(ctx context.Context, bucket string) (all []r2.Intent, err error) {
	if !b.Exists(bucket) {
		return nil, nil
	}
	err = b.Read(ctx, bucket, func(c *pool.Conn) error {
		return c.Query("SELECT id, action, key, mark, at FROM intent ORDER BY id", nil, func(s *sqlite3.Stmt) error {
			all = append(all, r2.Intent{
				ID: s.ColumnInt64(0), Action: s.ColumnText(1), Key: string(s.ColumnRawBlob(2)), Mark: s.ColumnText(3), At: time.UnixMilli(s.ColumnInt64(4)),
			})
			return nil
		})
	})
	return all, err
}
