package s3

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/r2"
)

// An id of an upload is the mark of the object that is to be, a dot, and the id that the store gave.

// Create begins a multipart upload and returns its id.
func (b *Buckets) Create(ctx context.Context, bucket, key string, http *r2.HTTP, custom []r2.Field) (string, error) {
	if err := b.checkKey(bucket, key); err != nil {
		return "", err
	}
	mark := rand.Text()
	o, err := options(mark, http, custom, nil)
	if err != nil {
		return "", err
	}
	id, err := b.core.NewMultipartUpload(ctx, b.o.Bucket, b.name(bucket, key), *o)
	return mark + "." + id, failed(err)
}

func split(id string) (mark, own string, err error) {
	mark, own, ok := strings.Cut(id, ".")
	if !ok || own == "" {
		return "", "", r2.NoUpload()
	}
	return mark, own, nil
}

// UploadPart keeps a part, in place of an earlier one of its number, and returns its etag when the store has it. The body is
// the bucket's from now on, whatever comes of it.
func (b *Buckets) UploadPart(ctx context.Context, bucket, key, id string, number int, received r2.Body) (string, error) {
	body, err := taken(received)
	if err != nil {
		return "", err
	}
	defer body.Discard()
	_, own, err := split(id)
	if err != nil {
		return "", err
	}
	part, err := b.core.PutObjectPart(ctx, b.o.Bucket, b.name(bucket, key), own, number, body.File, body.size, minio.PutObjectPartOptions{Md5Base64: body.md5()})
	return strings.Trim(part.ETag, `"`), failed(err)
}

// parts are those that the store has of an upload, by number.
func (b *Buckets) parts(ctx context.Context, bucket, key, own string) (map[int]r2.StoredPart, error) {
	all := map[int]r2.StoredPart{}
	for marker := 0; ; {
		found, err := b.core.ListObjectParts(ctx, b.o.Bucket, b.name(bucket, key), own, marker, queue.R2Page)
		if err != nil {
			return nil, failed(err)
		}
		for i := range found.ObjectParts {
			p := &found.ObjectParts[i]
			all[p.PartNumber] = r2.StoredPart{Size: p.Size, Etag: strings.Trim(p.ETag, `"`)}
		}
		if !found.IsTruncated || found.NextPartNumberMarker <= marker {
			return all, nil
		}
		marker = found.NextPartNumberMarker
	}
}

// Complete makes an object of parts, in the order of their numbers, and returns when the store has it.
func (b *Buckets) Complete(ctx context.Context, bucket, key, id string, chosen []r2.Part) (*r2.Info, error) {
	mark, own, err := split(id)
	if err != nil {
		return nil, err
	}
	all, err := b.parts(ctx, bucket, key, own)
	if err != nil {
		return nil, err
	}
	if err := r2.CheckParts(all, chosen); err != nil {
		return nil, err
	}
	list := make([]minio.CompletePart, len(chosen))
	for i, p := range chosen {
		list[i] = minio.CompletePart{PartNumber: p.Number, ETag: p.Etag}
	}
	slices.SortFunc(list, func(a, b minio.CompletePart) int { return a.PartNumber - b.PartNumber })
	var info *r2.Info
	intent := &r2.Intent{Action: r2.CompleteUpload, Key: key, Mark: mark}
	err = b.change(ctx, bucket, key, func() (*r2.Intent, error) { return intent, nil }, func() (*r2.Event, error) {
		_, err := b.core.CompleteMultipartUpload(ctx, b.o.Bucket, b.name(bucket, key), own, list, minio.PutObjectOptions{})
		there, found, lookErr := b.look(ctx, bucket, key)
		switch {
		case found == mark:
			info = there // also where the answer to the first try was lost
		case err != nil:
			return nil, failed(err)
		case lookErr != nil:
			return nil, lookErr
		default:
			return nil, r2.ErrChanged // somebody has put another one in the meantime
		}
		return eventOf(r2.CompleteUpload, bucket, info), nil
	})
	return info, err
}

// Abort gives an upload up, with its parts.
func (b *Buckets) Abort(ctx context.Context, bucket, key, id string) error {
	_, own, err := split(id)
	if err != nil {
		return err
	}
	return failed(b.core.AbortMultipartUpload(ctx, b.o.Bucket, b.name(bucket, key), own))
}
