// Package r2 keeps buckets: for each a SQLite file with what is known of its objects, and a folder with their bodies, which
// are files that never change. An object is there with the commit of its row, which comes when its body is on the disk.
package r2

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/runlot/runlot/internal/adapter/sqlite/pool"
	"github.com/runlot/runlot/internal/core/d1"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/r2"
)

const (
	// folderSuffix ends the name of a bucket's folder, which begins as that of its file.
	folderSuffix    = ".objects"
	temporaryFolder = "tmp"
)

var layout = []string{`
CREATE TABLE object (key BLOB NOT NULL, version TEXT NOT NULL, size INTEGER NOT NULL, etag TEXT NOT NULL, uploaded INTEGER NOT NULL, about TEXT NOT NULL, pieces TEXT NOT NULL) STRICT;
CREATE UNIQUE INDEX object_key ON object (key);
CREATE TABLE upload (id TEXT PRIMARY KEY, key BLOB NOT NULL, about TEXT NOT NULL, created INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX upload_created ON upload (created);
CREATE TABLE part (upload TEXT NOT NULL, number INTEGER NOT NULL, size INTEGER NOT NULL, etag TEXT NOT NULL, pieces TEXT NOT NULL, PRIMARY KEY (upload, number)) STRICT, WITHOUT ROWID;
CREATE TABLE doomed (blob TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TABLE rule (id TEXT PRIMARY KEY, rule TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, destination TEXT NOT NULL, body TEXT NOT NULL) STRICT;
CREATE INDEX outbox_destination ON outbox (destination, seq);`, `
CREATE TABLE made (one INTEGER PRIMARY KEY CHECK (one = 1), at INTEGER NOT NULL) STRICT;
INSERT INTO made (one, at) VALUES (1, CAST(unixepoch('subsec') * 1000 AS INTEGER));
CREATE TABLE intent (id INTEGER PRIMARY KEY AUTOINCREMENT, action TEXT NOT NULL, key BLOB NOT NULL, mark TEXT NOT NULL, at INTEGER NOT NULL, destinations TEXT NOT NULL) STRICT;`}

// about is what is kept of an object as JSON.
type about struct {
	HTTP      *r2.HTTP          `json:"http,omitempty"`
	Custom    []r2.Field        `json:"custom,omitempty"`
	Checksums map[string]string `json:"checksums,omitempty"`
}

// Buckets are the buckets of one folder. Its methods may be called from several goroutines.
type Buckets struct {
	*pool.Pool
	dir string
	now func() time.Time
	// waiting is told of a bucket whose outbox has something.
	waiting func(bucket string)

	mu sync.Mutex
	// cleaned are the buckets of which the bodies are deleted that nobody finished, and reading counts who reads a body;
	// guarded by mu.
	cleaned map[string]bool
	reading map[string]int
}

// New returns the buckets in a folder, which is made at the first use. waiting is called when an event of a bucket waits to
// be told; it must not block. log takes what callers must not see.
func New(dir string, waiting func(bucket string), log *slog.Logger) *Buckets {
	return &Buckets{
		Pool: pool.New(pool.Options{Dir: dir, What: "R2 bucket", Layout: layout, Log: log}), dir: dir, now: time.Now, waiting: waiting,
		cleaned: map[string]bool{}, reading: map[string]int{},
	}
}

// folder is where the bodies of a bucket lie.
func (b *Buckets) folder(bucket string) string {
	return filepath.Join(b.dir, strings.TrimSuffix(d1.FileName(bucket), ".sqlite")+folderSuffix)
}

// clean deletes what was not finished before this program started.
func (b *Buckets) clean(bucket string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cleaned[bucket] {
		return nil
	}
	if err := os.RemoveAll(filepath.Join(b.folder(bucket), temporaryFolder)); err != nil {
		return err
	}
	b.cleaned[bucket] = true
	return nil
}

// Put sets an object, and returns when it is on the disk. The body is the bucket's from now on, whatever comes of it.
func (b *Buckets) Put(ctx context.Context, bucket string, p *r2.Put) (*r2.Info, error) {
	body, err := own(p.Body)
	if err != nil {
		return nil, err
	}
	if err := body.keep(); err != nil {
		body.Discard()
		return nil, err
	}
	info := &r2.Info{
		Key: p.Key, Version: body.id, Size: body.size, Etag: body.Sum(r2.MD5), Uploaded: b.now().Truncate(time.Millisecond), HTTP: p.HTTP, Custom: p.Custom,
		Checksums: body.sums.All(),
	}
	err = b.Write(ctx, bucket, func(c *pool.Conn) error {
		return b.set(c, bucket, info, body.pieces(), p.OnlyIf, r2.PutObject)
	})
	if err != nil {
		body.drop(err)
		return nil, err
	}
	b.settled(ctx, bucket)
	return info, nil
}

// set puts an object's row in place, within a transaction.
func (b *Buckets) set(c *pool.Conn, bucket string, info *r2.Info, pieces []piece, onlyIf *r2.Condition, action string) error {
	old, err := row(c, info.Key)
	if err != nil {
		return err
	}
	if !onlyIf.Holds(old.info()) {
		return r2.Precondition()
	}
	if err := doom(c, old.all()); err != nil {
		return err
	}
	text, list, err := marshal(about{info.HTTP, info.Custom, info.Checksums}, pieces)
	if err != nil {
		return err
	}
	err = c.Query(`INSERT INTO object (key, version, size, etag, uploaded, about, pieces) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
		ON CONFLICT (key) DO UPDATE SET version = ?2, size = ?3, etag = ?4, uploaded = ?5, about = ?6, pieces = ?7`,
		[]any{[]byte(info.Key), info.Version, info.Size, info.Etag, info.Uploaded.UnixMilli(), text, list}, nil)
	if err != nil {
		return err
	}
	return post(c, &r2.Event{Action: action, Bucket: bucket, Key: info.Key, Size: &info.Size, Etag: info.Etag, Time: info.Uploaded})
}

func marshal(a about, pieces []piece) (text, list string, err error) {
	first, err := json.Marshal(a)
	if err != nil {
		return "", "", err
	}
	second, err := json.Marshal(pieces)
	return string(first), string(second), err
}

// stored is an object as it is stored.
type stored struct {
	r2.Info
	pieces []piece
}

func (s *stored) info() *r2.Info {
	if s == nil {
		return nil
	}
	return &s.Info
}

func (s *stored) all() []piece {
	if s == nil {
		return nil
	}
	return s.pieces
}

const columns = "SELECT key, version, size, etag, uploaded, about, pieces FROM object"

// row returns the object of a key, or nil.
func row(c *pool.Conn, key string) (found *stored, err error) {
	err = c.Query(columns+" WHERE key = ?", []any{[]byte(key)}, func(s *sqlite3.Stmt) error {
		found, err = scan(s)
		return err
	})
	return found, err
}

func scan(s *sqlite3.Stmt) (*stored, error) {
	o := &stored{Info: r2.Info{
		Key: string(s.ColumnRawBlob(0)), Version: s.ColumnText(1), Size: s.ColumnInt64(2), Etag: s.ColumnText(3), Uploaded: time.UnixMilli(s.ColumnInt64(4)),
	}}
	var a about
	if err := errors.Join(json.Unmarshal(s.ColumnRawText(5), &a), json.Unmarshal(s.ColumnRawText(6), &o.pieces)); err != nil {
		return nil, fmt.Errorf("the row of %q: %w", o.Key, err)
	}
	o.HTTP, o.Custom, o.Checksums = a.HTTP, a.Custom, a.Checksums
	return o, nil
}

// opened is an object that is read.
type opened struct {
	*stored
	buckets *Buckets
	bucket  string
}

// Open returns the object of a key, or nil. The caller closes it.
func (b *Buckets) Open(ctx context.Context, bucket, key string) (r2.Object, error) {
	if !b.Exists(bucket) {
		return nil, nil //nolint:nilnil // there is none, which is no error
	}
	var found *stored
	err := b.Read(ctx, bucket, func(c *pool.Conn) (err error) {
		found, err = row(c, key)
		if found != nil {
			b.hold(found.pieces, 1) // while no other call can delete them
		}
		return err
	})
	if err != nil || found == nil {
		return nil, err
	}
	return &opened{found, b, bucket}, nil
}

// Info implements r2.Object.
func (o *opened) Info() *r2.Info { return &o.stored.Info }

// Body implements r2.Object.
func (o *opened) Body(r r2.Range) (io.ReadCloser, error) {
	return &body{folder: o.buckets.folder(o.bucket), pieces: o.pieces, skip: r.Offset, left: r.Length}, nil
}

// Close implements r2.Object.
func (o *opened) Close() { o.buckets.hold(o.pieces, -1) }

// hold counts who reads bodies.
func (b *Buckets) hold(pieces []piece, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range pieces {
		if b.reading[p.Blob] += n; b.reading[p.Blob] == 0 {
			delete(b.reading, p.Blob)
		}
	}
}

func (b *Buckets) held(blob string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reading[blob] > 0
}

// Delete deletes objects, which need not exist, and returns when that is on the disk.
func (b *Buckets) Delete(ctx context.Context, bucket string, keys []string) error {
	if !b.Exists(bucket) {
		return nil
	}
	err := b.Write(ctx, bucket, func(c *pool.Conn) error {
		for _, key := range keys {
			old, err := row(c, key)
			if err != nil {
				return err
			}
			if old == nil {
				continue
			}
			if err := doom(c, old.pieces); err != nil {
				return err
			}
			if err := c.Query("DELETE FROM object WHERE key = ?", []any{[]byte(key)}, nil); err != nil {
				return err
			}
			if err := post(c, &r2.Event{Action: r2.DeleteObject, Bucket: bucket, Key: key, Time: b.now()}); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		b.settled(ctx, bucket)
	}
	return err
}

// List returns objects in the order of the keys' bytes; keys that have the delimiter behind the prefix stand for one prefix.
func (b *Buckets) List(ctx context.Context, bucket string, q *r2.Query) (*r2.Page, error) {
	page := &r2.Page{}
	if !b.Exists(bucket) {
		return page, nil
	}
	err := b.Read(ctx, bucket, func(c *pool.Conn) error {
		from, behind := q.After, true
		if q.Skip {
			from, behind = after(q.After), false
		}
		if from < q.Prefix {
			from, behind = q.Prefix, false
		}
		for room := queue.R2PageBytes; ; {
			next, err := next(c, from, behind)
			if err != nil || next == nil || !strings.HasPrefix(next.Key, q.Prefix) {
				return err
			}
			if len(page.Objects)+len(page.Prefixes) == q.Limit || room < 0 {
				page.Last, page.LastIsPrefix = last(page)
				return nil
			}
			from, behind = next.Key, true
			if at := strings.Index(next.Key[len(q.Prefix):], q.Delimiter); q.Delimiter != "" && at >= 0 {
				prefix := next.Key[:len(q.Prefix)+at+len(q.Delimiter)]
				page.Prefixes = append(page.Prefixes, prefix)
				from, behind = after(prefix), false
				room -= len(prefix)
				continue
			}
			page.Objects = append(page.Objects, next.Info)
			room -= weight(&next.Info)
		}
	})
	return page, err
}

// weight is about what an object takes in an answer, in bytes.
func weight(o *r2.Info) int {
	const fixed = 600
	n := fixed + 2*len(o.Key)
	for _, f := range o.Custom {
		n += 2 * (len(f.K) + len(f.V))
	}
	return n
}

// next returns the first object from a key on, or behind it.
func next(c *pool.Conn, from string, behind bool) (found *stored, err error) {
	sql := columns + " WHERE key >= ? ORDER BY key LIMIT 1"
	if behind {
		sql = columns + " WHERE key > ? ORDER BY key LIMIT 1"
	}
	err = c.Query(sql, []any{[]byte(from)}, func(s *sqlite3.Stmt) error {
		found, err = scan(s)
		return err
	})
	return found, err
}

// last is where a page ends.
func last(page *r2.Page) (key string, isPrefix bool) {
	if n := len(page.Objects); n > 0 {
		key = page.Objects[n-1].Key
	}
	if n := len(page.Prefixes); n > 0 && page.Prefixes[n-1] > key {
		return page.Prefixes[n-1], true
	}
	return key, false
}

// after is the first text behind all that begin with a prefix, which is UTF-8 and not empty: 0xff is no byte of it.
func after(prefix string) string {
	end := []byte(prefix)
	end[len(end)-1]++
	return string(end)
}
