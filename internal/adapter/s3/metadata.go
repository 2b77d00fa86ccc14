package s3

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/r2"
)

// ownField is the field of the metadata that holds what the store has no place for.
const ownField = "runlot"

const metaPrefix = "X-Amz-Meta-"

// own is that field, as JSON in base64.
type own struct {
	Mark      string            `json:"m"`
	Checksums map[string]string `json:"c,omitempty"`
	// Fields are those of the user's own that no header can carry as they are.
	Fields []r2.Field `json:"f,omitempty"`
	// Untyped says that no content type was given.
	Untyped bool `json:"u,omitempty"`
}

var (
	plainName  = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,126}$`)
	plainValue = regexp.MustCompile(`^[!-~]+( [!-~]+)*$`)
)

// options is how an object is put with its metadata. Names and values that a header carries as they are stand in
// x-amz-meta-NAME, where other programs look for them.
func options(mark string, h *r2.HTTP, custom []r2.Field, checksums map[string]string) (*minio.PutObjectOptions, error) {
	if h == nil {
		h = &r2.HTTP{}
	}
	o := &minio.PutObjectOptions{
		ContentType: h.ContentType, ContentEncoding: h.ContentEncoding, ContentDisposition: h.ContentDisposition, ContentLanguage: h.ContentLanguage,
		CacheControl: h.CacheControl, UserMetadata: map[string]string{}, DisableMultipart: true,
	}
	if h.CacheExpiry != "" {
		ms, err := strconv.ParseInt(h.CacheExpiry, 10, 64)
		if err != nil {
			return nil, r2.Argumentf("The time of cacheExpiry cannot be read.")
		}
		o.Expires = time.UnixMilli(ms)
	}
	about := own{Mark: mark, Checksums: checksums, Untyped: h.ContentType == ""}
	size := 0
	for _, f := range custom {
		if f.K == ownField || !plainName.MatchString(f.K) || !plainValue.MatchString(f.V) {
			about.Fields = append(about.Fields, f)
			continue
		}
		o.UserMetadata[metaPrefix+f.K] = f.V
		size += len(f.K) + len(f.V)
	}
	text, err := json.Marshal(about)
	if err != nil {
		return nil, err
	}
	value := base64.StdEncoding.EncodeToString(text)
	o.UserMetadata[metaPrefix+ownField] = value
	if size+len(ownField)+len(value) > queue.S3MetadataBytes {
		return nil, r2.LargeMetadata()
	}
	return o, nil
}

// object is what the store tells of an object, and its mark.
func object(key string, o *minio.ObjectInfo) (*r2.Info, string) {
	uploaded := o.LastModified.UTC().Truncate(time.Second) // a list and a look have seconds in common
	info := &r2.Info{Key: key, Size: o.Size, Etag: strings.Trim(o.ETag, `"`), Uploaded: uploaded}
	info.Version = version(info.Etag, uploaded)
	h := &r2.HTTP{
		ContentType: o.ContentType, ContentLanguage: o.Metadata.Get("Content-Language"), ContentDisposition: o.Metadata.Get("Content-Disposition"),
		ContentEncoding: strings.Trim(strings.ReplaceAll(o.Metadata.Get("Content-Encoding"), "aws-chunked", ""), ", "), CacheControl: o.Metadata.Get("Cache-Control"),
	}
	if !o.Expires.IsZero() {
		h.CacheExpiry = strconv.FormatInt(o.Expires.UnixMilli(), 10)
	}
	var about own
	for name, value := range o.UserMetadata {
		name = strings.ToLower(name)
		if name == ownField {
			// What another program has put there is none of ours.
			if text, err := base64.StdEncoding.DecodeString(value); err == nil {
				_ = json.Unmarshal(text, &about)
			}
			continue
		}
		info.Custom = append(info.Custom, r2.Field{K: name, V: value})
	}
	info.Custom = append(info.Custom, about.Fields...)
	slices.SortFunc(info.Custom, func(a, b r2.Field) int { return strings.Compare(a.K, b.K) })
	info.Checksums = about.Checksums
	if about.Untyped {
		h.ContentType = ""
	}
	if *h != (r2.HTTP{}) {
		info.HTTP = h
	}
	return info, about.Mark
}
