package r2

import (
	"context"
	"crypto/md5"  //nolint:gosec // G501: R2's etags are MD5
	"crypto/rand" // ids that no two have
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/runlot/runlot/internal/adapter/sqlite/pool"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/r2"
)

// Create begins a multipart upload and returns its id. Uploads that nobody completed in time are given up.
func (b *Buckets) Create(ctx context.Context, bucket, key string, http *r2.HTTP, custom []r2.Field) (string, error) {
	id := rand.Text()
	text, _, err := marshal(about{HTTP: http, Custom: custom}, nil)
	if err != nil {
		return "", err
	}
	return id, b.Write(ctx, bucket, func(c *pool.Conn) error {
		var old []string
		err := c.Query("SELECT id FROM upload WHERE created < ? LIMIT 10", []any{b.now().Add(-queue.R2UploadTime).UnixMilli()}, func(s *sqlite3.Stmt) error {
			old = append(old, s.ColumnText(0))
			return nil
		})
		if err != nil {
			return err
		}
		for _, upload := range old {
			if err := giveUp(c, upload); err != nil {
				return err
			}
		}
		return c.Query("INSERT INTO upload (id, key, about, created) VALUES (?, ?, ?, ?)", []any{id, []byte(key), text, b.now().UnixMilli()}, nil)
	})
}

// upload returns what was said at the beginning of an upload of a key.
func upload(c *pool.Conn, id, key string) (a about, err error) {
	found := false
	err = c.Query("SELECT about FROM upload WHERE id = ? AND key = ?", []any{id, []byte(key)}, func(s *sqlite3.Stmt) error {
		found = true
		return json.Unmarshal(s.ColumnRawText(0), &a)
	})
	if err == nil && !found {
		err = r2.NoUpload()
	}
	return a, err
}

// parts returns the parts of an upload, by number.
func parts(c *pool.Conn, id string) (map[int]*stored, error) {
	all := map[int]*stored{}
	err := c.Query("SELECT number, size, etag, pieces FROM part WHERE upload = ?", []any{id}, func(s *sqlite3.Stmt) error {
		p := &stored{Info: r2.Info{Size: s.ColumnInt64(1), Etag: s.ColumnText(2)}}
		all[s.ColumnInt(0)] = p
		return json.Unmarshal(s.ColumnRawText(3), &p.pieces)
	})
	return all, err
}

// UploadPart keeps a part, in place of an earlier one of its number, and returns its etag when it is on the disk. The body
// is the bucket's from now on, whatever comes of it.
func (b *Buckets) UploadPart(ctx context.Context, bucket, key, id string, number int, received r2.Body) (string, error) {
	body, err := own(received)
	if err != nil {
		return "", err
	}
	if err := body.keep(); err != nil {
		body.Discard()
		return "", err
	}
	etag := body.Sum(r2.MD5)
	err = b.Write(ctx, bucket, func(c *pool.Conn) error {
		if _, err := upload(c, id, key); err != nil {
			return err
		}
		all, err := parts(c, id)
		if err != nil {
			return err
		}
		if err := doom(c, all[number].all()); err != nil {
			return err
		}
		_, list, err := marshal(about{}, body.pieces())
		if err != nil {
			return err
		}
		return c.Query("INSERT INTO part (upload, number, size, etag, pieces) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE SET size = ?3, etag = ?4, pieces = ?5",
			[]any{id, int64(number), body.size, etag, list}, nil)
	})
	if err != nil {
		body.drop(err)
		return "", err
	}
	b.settled(ctx, bucket)
	return etag, nil
}

// Complete makes an object of parts, in the order of their numbers, and returns when that is on the disk.
func (b *Buckets) Complete(ctx context.Context, bucket, key, id string, chosen []r2.Part) (*r2.Info, error) {
	var info *r2.Info
	err := b.Write(ctx, bucket, func(c *pool.Conn) error {
		a, err := upload(c, id, key)
		if err != nil {
			return err
		}
		all, err := parts(c, id)
		if err != nil {
			return err
		}
		var pieces []piece
		info, pieces, err = join(all, chosen)
		if err != nil {
			return err
		}
		info.Key, info.Version, info.Uploaded, info.HTTP, info.Custom = key, rand.Text(), b.now().Truncate(time.Millisecond), a.HTTP, a.Custom
		if err := b.set(c, bucket, info, pieces, nil, r2.CompleteUpload); err != nil {
			return err
		}
		for _, p := range chosen {
			delete(all, p.Number)
		}
		for _, unused := range all {
			if err := doom(c, unused.pieces); err != nil {
				return err
			}
		}
		return forget(c, id)
	})
	if err != nil {
		return nil, err
	}
	b.settled(ctx, bucket)
	return info, nil
}

// join checks the parts of an object and puts them together. all are those that were uploaded.
func join(all map[int]*stored, chosen []r2.Part) (*r2.Info, []piece, error) {
	received := make(map[int]r2.StoredPart, len(all))
	for number, p := range all {
		received[number] = r2.StoredPart{Size: p.Size, Etag: p.Etag}
	}
	if err := r2.CheckParts(received, chosen); err != nil {
		return nil, nil, err
	}
	info := &r2.Info{}
	var pieces []piece
	sum := md5.New() //nolint:gosec // G401: R2's etags are MD5
	for _, want := range chosen {
		p := all[want.Number]
		raw, err := hex.DecodeString(p.Etag)
		if err != nil {
			return nil, nil, fmt.Errorf("the etag of part %d: %w", want.Number, err)
		}
		sum.Write(raw)
		info.Size += p.Size
		pieces = append(pieces, p.pieces...)
	}
	info.Etag = fmt.Sprintf("%s-%d", hex.EncodeToString(sum.Sum(nil)), len(chosen))
	return info, pieces, nil
}

// Abort gives an upload up, with its parts.
func (b *Buckets) Abort(ctx context.Context, bucket, key, id string) error {
	err := b.Write(ctx, bucket, func(c *pool.Conn) error {
		if _, err := upload(c, id, key); err != nil {
			return err
		}
		return giveUp(c, id)
	})
	if err == nil {
		b.settled(ctx, bucket)
	}
	return err
}

func giveUp(c *pool.Conn, id string) error {
	all, err := parts(c, id)
	if err != nil {
		return err
	}
	for _, p := range all {
		if err := doom(c, p.pieces); err != nil {
			return err
		}
	}
	return forget(c, id)
}

func forget(c *pool.Conn, id string) error {
	if err := c.Query("DELETE FROM part WHERE upload = ?", []any{id}, nil); err != nil {
		return err
	}
	return c.Query("DELETE FROM upload WHERE id = ?", []any{id}, nil)
}
