package s3

import (
	"context"
	"strings"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/r2"
)

// lastRune is behind every other in the order of bytes.
const lastRune = "\U0010FFFF"

// List returns objects in the order of the keys' bytes; keys that have the delimiter behind the prefix stand for one prefix.
func (b *Buckets) List(ctx context.Context, bucket string, q *r2.Query) (*r2.Page, error) {
	folder := b.folder(bucket)
	after := ""
	if q.After != "" {
		after = folder + q.After
		if q.Skip {
			after += lastRune
		}
	}
	found, err := b.core.ListObjectsV2(b.o.Bucket, folder+q.Prefix, after, "", q.Delimiter, q.Limit)
	if err != nil {
		return nil, failed(err)
	}
	page := &r2.Page{}
	for _, one := range found.CommonPrefixes {
		if prefix := strings.TrimPrefix(one.Prefix, folder); !q.Skip || prefix != q.After {
			page.Prefixes = append(page.Prefixes, prefix)
		}
	}
	room, cut := queue.R2PageBytes, false
	for i := range found.Contents {
		key := strings.TrimPrefix(found.Contents[i].Key, folder)
		if room -= weight + 2*len(key); room < 0 && i > 0 {
			cut = true
			break
		}
		info, _ := object(key, &found.Contents[i])
		info.HTTP = nil
		page.Objects = append(page.Objects, *info)
	}
	if q.About {
		if err := b.fill(ctx, bucket, page); err != nil {
			return nil, err
		}
	}
	if found.IsTruncated || cut {
		page.Last, page.LastIsPrefix = last(page, cut)
	}
	return page, nil
}

// weight is about what an object takes in an answer beside its key, in bytes.
const weight = 400

// fill asks for the metadata of each object, which the store does not list. An object that is gone meanwhile is left out.
func (b *Buckets) fill(ctx context.Context, bucket string, page *r2.Page) error {
	each, ctx := errgroup.WithContext(ctx)
	each.SetLimit(queue.S3Parallel)
	found := make([]*r2.Info, len(page.Objects))
	for i := range page.Objects {
		each.Go(func() (err error) {
			found[i], _, err = b.look(ctx, bucket, page.Objects[i].Key)
			return err
		})
	}
	if err := each.Wait(); err != nil {
		return err
	}
	for i, info := range found {
		if info != nil {
			page.Objects[i] = *info
		}
	}
	return nil
}

// last is where a page ends. One that was cut has only prefixes before its last object.
func last(page *r2.Page, cut bool) (key string, isPrefix bool) {
	if n := len(page.Objects); n > 0 {
		key = page.Objects[n-1].Key
	}
	if cut {
		for n := len(page.Prefixes); n > 0 && page.Prefixes[n-1] > key; n-- {
			page.Prefixes = page.Prefixes[:n-1]
		}
	}
	if n := len(page.Prefixes); n > 0 && page.Prefixes[n-1] > key {
		return page.Prefixes[n-1], true
	}
	return key, false
}

// Names are the buckets of which the store has objects.
func (b *Buckets) Names(ctx context.Context) ([]string, error) {
	var names []string
	for token := ""; ; {
		found, err := b.core.ListObjectsV2(b.o.Bucket, b.o.Prefix, "", token, "/", queue.R2Page)
		if err != nil {
			return nil, failed(err)
		}
		for _, one := range found.CommonPrefixes {
			if name := strings.TrimSuffix(strings.TrimPrefix(one.Prefix, b.o.Prefix), "/"); r2.ValidBucket(name) {
				names = append(names, name)
			}
		}
		if token = found.NextContinuationToken; !found.IsTruncated || token == "" || ctx.Err() != nil {
			return names, ctx.Err()
		}
	}
}

// Totals counts the objects of a bucket and the bytes of their bodies, for which the store lists them all.
func (b *Buckets) Totals(ctx context.Context, bucket string) (objects, bytes int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, queue.S3CountTime)
	defer cancel()
	for one := range b.core.ListObjectsIter(ctx, b.o.Bucket, minio.ListObjectsOptions{Prefix: b.folder(bucket), Recursive: true}) {
		if one.Err != nil {
			if ctx.Err() != nil {
				return 0, 0, fault.New(fault.Timeout, "r2_count", "the bucket %s has too many objects to be counted", bucket)
			}
			return 0, 0, failed(one.Err)
		}
		objects, bytes = objects+1, bytes+one.Size
	}
	return objects, bytes, nil
}
