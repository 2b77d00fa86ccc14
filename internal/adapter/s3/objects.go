package s3

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/r2"
)

// spooled is a body that was received. Its file has no name any more.
type spooled struct {
	*os.File
	size int64
	sums r2.Sums
}

// Sum implements r2.Body.
func (s *spooled) Sum(name string) string { return s.sums.Hex(name) }

// Discard implements r2.Body.
func (s *spooled) Discard() { _ = s.Close() } // nothing is kept

// md5 is the checksum as the store wants it.
func (s *spooled) md5() string {
	raw, err := hex.DecodeString(s.Sum(r2.MD5))
	if err != nil {
		panic("s3: a checksum is hexadecimal: " + err.Error())
	}
	return base64.StdEncoding.EncodeToString(raw)
}

// Receive writes a body to the disk, since the store wants to know its size and its checksum first, and the call may have to
// be repeated.
func (b *Buckets) Receive(_ string, body io.Reader, checksums ...string) (r2.Body, error) {
	if err := os.MkdirAll(b.o.Scratch, 0o700); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(b.o.Scratch, "body-*")
	if err != nil {
		return nil, err
	}
	s := &spooled{File: file, sums: r2.NewSums(checksums...)}
	if err = os.Remove(file.Name()); err == nil {
		s.size, err = io.Copy(io.MultiWriter(s.sums, file), io.LimitReader(body, queue.R2ObjectBytes+1))
	}
	if err == nil && s.size > queue.R2ObjectBytes {
		err = r2.TooLarge()
	}
	if err != nil {
		s.Discard()
		return nil, err
	}
	return s, nil
}

// taken returns a body as it is here, from its beginning.
func taken(body r2.Body) (*spooled, error) {
	s, ok := body.(*spooled)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	_, err := s.Seek(0, io.SeekStart)
	return s, err
}

// look asks the store for an object; nil when there is none. The second result is its mark.
func (b *Buckets) look(ctx context.Context, bucket, key string) (*r2.Info, string, error) {
	if b.checkKey(bucket, key) != nil {
		return nil, "", nil //nolint:nilerr // no object can have it, which is no error
	}
	found, err := b.core.StatObject(ctx, b.o.Bucket, b.name(bucket, key), minio.StatObjectOptions{})
	if missing(err) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", failed(err)
	}
	info, mark := object(key, &found)
	return info, mark, nil
}

// guardTries is how often a put is tried whose condition was looked at before another program changed the object.
const guardTries = 3

// Put sets an object, and returns when the store has it. The body is the bucket's from now on, whatever comes of it.
func (b *Buckets) Put(ctx context.Context, bucket string, p *r2.Put) (*r2.Info, error) {
	body, err := taken(p.Body)
	if err != nil {
		return nil, err
	}
	defer body.Discard()
	if err := b.checkKey(bucket, p.Key); err != nil {
		return nil, err
	}
	mark := rand.Text()
	o, err := options(mark, p.HTTP, p.Custom, body.sums.All())
	if err != nil {
		return nil, err
	}
	var info *r2.Info
	intent := &r2.Intent{Action: r2.PutObject, Key: p.Key, Mark: mark}
	err = b.change(ctx, bucket, p.Key, func() (*r2.Intent, error) { return intent, nil }, func() (*r2.Event, error) {
		for try := 1; ; try++ {
			if info, err = b.putOnce(ctx, bucket, p, body, *o, mark); !conflict(err) || try == guardTries {
				return eventOf(r2.PutObject, bucket, info), err
			}
		}
	})
	return info, err
}

// conflict reports whether an object was changed between the look at it and the put, so that the condition may hold again.
func conflict(err error) bool { return errors.Is(err, r2.ErrChanged) }

func eventOf(action, bucket string, info *r2.Info) *r2.Event {
	if info == nil {
		return nil
	}
	return &r2.Event{Action: action, Bucket: bucket, Key: info.Key, Size: &info.Size, Etag: info.Etag, Time: info.Uploaded}
}

func (b *Buckets) putOnce(ctx context.Context, bucket string, p *r2.Put, body *spooled, o minio.PutObjectOptions, mark string) (*r2.Info, error) {
	if p.OnlyIf != nil {
		there, _, err := b.look(ctx, bucket, p.Key)
		switch {
		case err != nil:
			return nil, err
		case !p.OnlyIf.Holds(there):
			return nil, r2.Precondition()
		case there == nil:
			o.SetMatchETagExcept("*")
		default:
			o.SetMatchETag(there.Etag)
		}
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	put, err := b.core.PutObject(ctx, b.o.Bucket, b.name(bucket, p.Key), body.File, body.size, body.md5(), "", o)
	if err != nil {
		answer := minio.ToErrorResponse(err)
		if p.OnlyIf == nil || answer.StatusCode != http.StatusPreconditionFailed && answer.StatusCode != http.StatusConflict {
			return nil, failed(err)
		}
	}
	info, found, lookErr := b.look(ctx, bucket, p.Key)
	switch {
	case found == mark:
		return info, nil // also where the answer to the first try was lost, and the second one is refused because of that
	case err != nil:
		return nil, errors.Join(r2.ErrChanged, failed(err), lookErr)
	}
	// Somebody else has put another one in the meantime, or the store does not answer any more: this one was there.
	now := time.Now().UTC().Truncate(time.Second)
	return &r2.Info{
		Key: p.Key, Version: version(put.ETag, now), Size: body.size, Etag: put.ETag, Uploaded: now, HTTP: p.HTTP, Custom: p.Custom, Checksums: body.sums.All(),
	}, nil
}

// opened is an object that is read.
type opened struct {
	about *r2.Info
	ctx   context.Context //nolint:containedctx // that of the caller of Open, who closes the object before it ends
	b     *Buckets
	name  string
}

// Open returns the object of a key, or nil. The caller closes it.
func (b *Buckets) Open(ctx context.Context, bucket, key string) (r2.Object, error) {
	info, _, err := b.look(ctx, bucket, key)
	if err != nil || info == nil {
		return nil, err
	}
	return &opened{info, ctx, b, b.name(bucket, key)}, nil
}

// Info implements r2.Object.
func (o *opened) Info() *r2.Info { return o.about }

// Body implements r2.Object.
func (o *opened) Body(r r2.Range) (io.ReadCloser, error) {
	if r.Length == 0 {
		return io.NopCloser(strings.NewReader("")), nil
	}
	var get minio.GetObjectOptions
	if err := errors.Join(get.SetMatchETag(o.about.Etag), get.SetRange(r.Offset, r.Offset+r.Length-1)); err != nil {
		return nil, err
	}
	body, _, _, err := o.b.core.GetObject(o.ctx, o.b.o.Bucket, o.name, get)
	if err != nil && (missing(err) || minio.ToErrorResponse(err).StatusCode == http.StatusPreconditionFailed) {
		return nil, r2.ErrChanged
	}
	return body, failed(err)
}

// Close implements r2.Object.
func (*opened) Close() {}

// Delete deletes objects, which need not exist, and returns when the store has done so.
func (b *Buckets) Delete(ctx context.Context, bucket string, keys []string) error {
	rules, err := b.o.Journal.Rules(ctx, bucket)
	if err != nil {
		return err
	}
	keys = slices.Clone(keys)
	slices.Sort(keys)
	keys = slices.DeleteFunc(slices.Compact(keys), func(key string) bool { return b.checkKey(bucket, key) != nil })
	told := func(key string) bool {
		return slices.ContainsFunc(rules, func(r r2.Rule) bool { return r.Wants(r2.DeleteObject, key) })
	}
	each, ctx := errgroup.WithContext(ctx)
	each.SetLimit(queue.S3Parallel)
	var rest []string
	for _, key := range keys {
		if !told(key) {
			rest = append(rest, key)
			continue
		}
		each.Go(func() error { return b.deleteTold(ctx, bucket, key) })
	}
	each.Go(func() error { return b.deleteAll(ctx, bucket, rest) })
	return each.Wait()
}

// deleteAll deletes objects of which nobody is told.
func (b *Buckets) deleteAll(ctx context.Context, bucket string, keys []string) error {
	if len(keys) == 1 {
		return failed(b.core.RemoveObject(ctx, b.o.Bucket, b.name(bucket, keys[0]), minio.RemoveObjectOptions{}))
	}
	if len(keys) == 0 {
		return nil
	}
	results, err := b.core.RemoveObjectsWithIter(ctx, b.o.Bucket, func(yield func(minio.ObjectInfo) bool) {
		for _, key := range keys {
			if !yield(minio.ObjectInfo{Key: b.name(bucket, key)}) {
				return
			}
		}
	}, minio.RemoveObjectsOptions{})
	if err != nil {
		return failed(err)
	}
	for one := range results {
		if one.Err != nil && !missing(one.Err) {
			err = failed(one.Err)
		}
	}
	return err
}

// deleteTold deletes an object of which a queue is told, if it is there.
func (b *Buckets) deleteTold(ctx context.Context, bucket, key string) error {
	return b.change(ctx, bucket, key, func() (*r2.Intent, error) {
		there, _, err := b.look(ctx, bucket, key)
		if err != nil || there == nil {
			return nil, err
		}
		return &r2.Intent{Action: r2.DeleteObject, Key: key, Mark: there.Version}, nil
	}, func() (*r2.Event, error) {
		if err := b.core.RemoveObject(ctx, b.o.Bucket, b.name(bucket, key), minio.RemoveObjectOptions{}); err != nil && !missing(err) {
			return nil, failed(err)
		}
		return &r2.Event{Action: r2.DeleteObject, Bucket: bucket, Key: key, Time: time.Now()}, nil
	})
}
