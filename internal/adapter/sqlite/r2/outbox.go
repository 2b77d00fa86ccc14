package r2

import (
	"context"
	"crypto/rand" // ids that no two have
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/runlot/runlot/internal/adapter/sqlite/pool"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/r2"
)

// Waiting is an event that waits to be told.
type Waiting struct {
	Seq int64
	// Body is the message, as JSON.
	Body []byte
}

// message is the form of an event that Cloudflare's queues get.
type message struct {
	Account string `json:"account"`
	Action  string `json:"action"`
	Bucket  string `json:"bucket"`
	Object  object `json:"object"`
	Time    string `json:"eventTime"`
}

type object struct {
	Key  string `json:"key"`
	Size *int64 `json:"size,omitempty"`
	Etag string `json:"eTag,omitempty"`
}

// account stands where Cloudflare has the id of an account.
const account = "runlot"

// post notes an event for each queue that a rule names, in the transaction of the change itself.
func post(c *pool.Conn, e *r2.Event) error {
	to, err := destinations(c, e.Action, e.Key)
	if err != nil || len(to) == 0 {
		return err
	}
	return postTo(c, e, to)
}

// destinations are the queues that are told of an action on a key.
func destinations(c *pool.Conn, action, key string) (to []r2.Destination, err error) {
	rules, err := rules(c)
	if err != nil {
		return nil, err
	}
	for i := range rules {
		if d := (r2.Destination{Database: rules[i].Database, Queue: rules[i].Queue}); rules[i].Wants(action, key) && !slices.Contains(to, d) {
			to = append(to, d)
		}
	}
	return to, nil
}

// postTo notes an event for queues.
func postTo(c *pool.Conn, e *r2.Event, to []r2.Destination) error {
	body, err := json.Marshal(message{account, e.Action, e.Bucket, object{e.Key, e.Size, e.Etag}, e.Time.UTC().Format("2006-01-02T15:04:05.000Z")})
	if err != nil {
		return err
	}
	for _, d := range to {
		text, err := json.Marshal(d)
		if err != nil {
			return err
		}
		if err := c.Query("INSERT INTO outbox (destination, body) VALUES (?, ?)", []any{string(text), string(body)}, nil); err != nil {
			return err
		}
	}
	return nil
}

func rules(c *pool.Conn) ([]r2.Rule, error) {
	var all []r2.Rule
	err := c.Query("SELECT rule FROM rule ORDER BY id", nil, func(s *sqlite3.Stmt) error {
		var r r2.Rule
		if err := json.Unmarshal(s.ColumnRawText(0), &r); err != nil {
			return err
		}
		all = append(all, r)
		return nil
	})
	return all, err
}

// Rules returns the rules of a bucket.
func (b *Buckets) Rules(ctx context.Context, bucket string) (all []r2.Rule, err error) {
	if !b.Exists(bucket) {
		return nil, nil
	}
	err = b.Read(ctx, bucket, func(c *pool.Conn) (err error) {
		all, err = rules(c)
		return err
	})
	return all, err
}

// AddRule adds a rule, and gives it an id and the time.
func (b *Buckets) AddRule(ctx context.Context, bucket string, r *r2.Rule) error {
	if err := r.Check(bucket); err != nil {
		return err
	}
	r.ID, r.Created = rand.Text(), b.now().UTC().Truncate(time.Second)
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return b.Write(ctx, bucket, func(c *pool.Conn) error {
		all, err := rules(c)
		if err != nil {
			return err
		}
		if len(all) >= queue.R2Rules {
			return fault.New(fault.Limit, "r2_rules", "the bucket %s has %d rules, the most that a bucket can have", bucket, len(all)).WithHint("delete one first")
		}
		return c.Query("INSERT INTO rule (id, rule) VALUES (?, ?)", []any{r.ID, string(text)}, nil)
	})
}

// DeleteRule deletes a rule and reports whether it was there.
func (b *Buckets) DeleteRule(ctx context.Context, bucket, id string) (found bool, err error) {
	if !b.Exists(bucket) {
		return false, nil
	}
	err = b.Write(ctx, bucket, func(c *pool.Conn) error {
		if err := c.Query("DELETE FROM rule WHERE id = ?", []any{id}, nil); err != nil {
			return err
		}
		found = c.Changes() > 0
		return nil
	})
	return found, err
}

// Destinations returns the queues for which events of a bucket wait.
func (b *Buckets) Destinations(ctx context.Context, bucket string) (all []r2.Destination, err error) {
	err = b.Read(ctx, bucket, func(c *pool.Conn) error {
		return c.Query("SELECT DISTINCT destination FROM outbox", nil, func(s *sqlite3.Stmt) error {
			var to r2.Destination
			err := json.Unmarshal(s.ColumnRawText(0), &to)
			all = append(all, to)
			return err
		})
	})
	return all, err
}

// Outbox returns the oldest events that wait to be told to a queue, at most this many.
func (b *Buckets) Outbox(ctx context.Context, bucket string, to r2.Destination, most int) (all []Waiting, err error) {
	text, err := json.Marshal(to)
	if err != nil {
		return nil, err
	}
	err = b.Read(ctx, bucket, func(c *pool.Conn) error {
		return c.Query("SELECT seq, body FROM outbox WHERE destination = ? ORDER BY seq LIMIT ?", []any{string(text), int64(most)}, func(s *sqlite3.Stmt) error {
			all = append(all, Waiting{Seq: s.ColumnInt64(0), Body: []byte(s.ColumnText(1))})
			return nil
		})
	})
	return all, err
}

// Told forgets events that were told.
func (b *Buckets) Told(ctx context.Context, bucket string, seqs []int64) error {
	return b.Write(ctx, bucket, func(c *pool.Conn) error {
		for _, seq := range seqs {
			if err := c.Query("DELETE FROM outbox WHERE seq = ?", []any{seq}, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// doom notes bodies that nothing has any more, in the transaction that takes them away.
func doom(c *pool.Conn, pieces []piece) error {
	for _, p := range pieces {
		if err := c.Query("INSERT OR IGNORE INTO doomed (blob) VALUES (?)", []any{p.Blob}, nil); err != nil {
			return err
		}
	}
	return nil
}

// settled does what follows a commit: events are told, and bodies deleted. What fails is done behind the next one.
func (b *Buckets) settled(ctx context.Context, bucket string) {
	ctx = context.WithoutCancel(ctx)
	var doomed []string
	events := false
	err := b.Read(ctx, bucket, func(c *pool.Conn) error {
		err := c.Query("SELECT 1 FROM outbox LIMIT 1", nil, func(*sqlite3.Stmt) error {
			events = true
			return nil
		})
		return errors.Join(err, c.Query("SELECT blob FROM doomed LIMIT ?", []any{int64(queue.R2DoomedRows)}, func(s *sqlite3.Stmt) error {
			doomed = append(doomed, s.ColumnText(0))
			return nil
		}))
	})
	if events {
		b.waiting(bucket)
	}
	if err == nil && len(doomed) > 0 {
		b.bury(ctx, bucket, doomed)
	}
}

// lockName is the file that a backup holds locked while the bodies have to stay.
const lockName = "lock"

// lock locks the bodies of all buckets: shared for who needs them, exclusive for who deletes. It is nil, without an error,
// when somebody else has them.
func lock(dir string, how int) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, nil //nolint:nilnil // somebody has it, and the caller comes again
		}
		return nil, err
	}
	return file, nil
}

// bury deletes bodies, but for those that somebody reads.
func (b *Buckets) bury(ctx context.Context, bucket string, doomed []string) {
	held, err := lock(b.dir, syscall.LOCK_EX)
	if err != nil || held == nil {
		return
	}
	defer held.Close()
	_ = b.Write(ctx, bucket, func(c *pool.Conn) error { // the turn keeps out who would begin to read
		for _, blob := range doomed {
			if b.held(blob) {
				continue
			}
			if err := os.Remove(place(b.folder(bucket), blob)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			if err := c.Query("DELETE FROM doomed WHERE blob = ?", []any{blob}, nil); err != nil {
				return err
			}
		}
		return nil
	})
}
