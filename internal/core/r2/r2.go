// Package r2 is what a bucket holds, is asked and answers, and the rules for that which need no storage.
package r2

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/runlot/runlot/internal/core/queue"
)

// HTTP are the HTTP headers that are kept with an object.
type HTTP struct {
	ContentType        string `json:"contentType,omitempty"`
	ContentLanguage    string `json:"contentLanguage,omitempty"`
	ContentDisposition string `json:"contentDisposition,omitempty"`
	ContentEncoding    string `json:"contentEncoding,omitempty"`
	CacheControl       string `json:"cacheControl,omitempty"`
	// CacheExpiry is in milliseconds since 1970, as text; "" is none.
	CacheExpiry string `json:"cacheExpiry,omitempty"`
}

// Field is one entry of the metadata of the user's own.
type Field struct {
	K string `json:"k"`
	V string `json:"v"`
}

// Info is what is known of an object beside its body.
type Info struct {
	Key     string
	Version string
	Size    int64
	// Etag has no quotes.
	Etag     string
	Uploaded time.Time
	HTTP     *HTTP
	Custom   []Field
	// Checksums are in hexadecimal, by name: md5, sha1, sha256, sha384, sha512.
	Checksums map[string]string
}

// Etag is an etag of a condition: a value, or any.
type Etag struct {
	Value string
	Weak  bool
	Any   bool
}

// Condition says for which object a call is to be carried out. Its zero value is every one, and none.
type Condition struct {
	Matches, DoesNotMatch []Etag
	// Before and After are compared with the time of the upload; zero is no condition.
	Before, After time.Time
	// Seconds says that times are compared by whole seconds.
	Seconds bool
}

// Holds reports whether the condition holds for what is there, or nil.
func (c *Condition) Holds(o *Info) bool {
	if c == nil {
		return true
	}
	if o == nil {
		return c.Matches == nil && c.After.IsZero()
	}
	matches := c.Matches == nil || includes(c.Matches, o.Etag, false)
	differs := c.DoesNotMatch == nil || !includes(c.DoesNotMatch, o.Etag, true)
	cut := func(t time.Time) time.Time {
		if c.Seconds {
			return t.Truncate(time.Second)
		}
		return t
	}
	// An etag that decides leaves nothing for the time to decide.
	before := c.Before.IsZero() || cut(o.Uploaded).Before(cut(c.Before)) || c.Matches != nil && matches
	after := c.After.IsZero() || cut(o.Uploaded).After(cut(c.After)) || c.DoesNotMatch != nil && differs
	return matches && differs && before && after
}

// includes reports whether an etag is among others; a weak one counts only where weak says so.
func includes(list []Etag, etag string, weak bool) bool {
	for _, e := range list {
		if e.Any || e.Value == etag && (weak || !e.Weak) {
			return true
		}
	}
	return false
}

// Range is a part of an object's body, in bytes.
type Range struct{ Offset, Length int64 }

// Wanted is a range as it is asked for: each nil where it was not named.
type Wanted struct {
	Offset, Length, Suffix *int64
	// Header is the value of a Range header, which counts when the others are nil.
	Header string
}

// In returns which bytes of a body of this size are wanted; partial is false for all of them.
func (w *Wanted) In(size int64) (r Range, partial bool, err error) {
	whole := Range{0, size}
	switch {
	case w == nil:
		return whole, false, nil
	case w.Offset == nil && w.Length == nil && w.Suffix == nil:
		if w.Header == "" {
			return whole, false, nil
		}
		return fromHeader(w.Header, size)
	case w.Suffix != nil:
		if *w.Suffix <= 0 {
			return whole, false, badRange()
		}
		n := min(*w.Suffix, size)
		return Range{size - n, n}, true, nil
	}
	r = whole
	if w.Offset != nil {
		r.Offset = *w.Offset
	}
	r.Length = size - r.Offset
	if w.Length != nil {
		r.Length = min(r.Length, *w.Length)
	}
	if r.Offset < 0 || r.Offset > size || r.Length < 0 || w.Length != nil && *w.Length <= 0 {
		return whole, false, badRange()
	}
	return r, true, nil
}

// fromHeader reads "bytes=1-2", "bytes=1-" or "bytes=-2"; anything else is the whole, as HTTP has it.
func fromHeader(text string, size int64) (r Range, partial bool, err error) {
	whole := Range{0, size}
	spec, ok := strings.CutPrefix(strings.TrimSpace(text), "bytes=")
	first, last, dash := strings.Cut(spec, "-")
	if !ok || !dash || strings.Contains(spec, ",") {
		return whole, false, nil
	}
	from, fromErr := strconv.ParseInt(strings.TrimSpace(first), 10, 64)
	to, toErr := strconv.ParseInt(strings.TrimSpace(last), 10, 64)
	switch {
	case first == "" && toErr == nil && to > 0:
		n := min(to, size)
		return Range{size - n, n}, true, nil
	case fromErr != nil || last != "" && (toErr != nil || to < from):
		return whole, false, nil //nolint:nilerr // a header that says nothing asks for all
	case from >= size:
		return whole, false, badRange()
	case last == "":
		to = size - 1
	}
	to = min(to, size-1)
	return Range{from, to - from + 1}, true, nil
}

// Query is what a list asks for.
type Query struct {
	Prefix, Delimiter string
	// After is the key behind which the list begins; with Skip, all keys that begin with it are skipped too.
	After string
	Skip  bool
	Limit int
	// About says that the metadata of each object is wanted too; without it, an answer may leave that out.
	About bool
}

// Page is the answer to a Query, in the order of the keys' bytes.
type Page struct {
	Objects  []Info
	Prefixes []string
	// Last is the last key or prefix of the page, behind which the next one begins; "" when nothing follows.
	Last string
	// LastIsPrefix says that Last is a prefix, all keys of which are done.
	LastIsPrefix bool
}

var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$`)

// ValidBucket reports whether a bucket can have a name.
func ValidBucket(name string) bool { return bucketName.MatchString(name) }

// BucketRule says in a sentence what ValidBucket checks.
const BucketRule = "the name of a bucket has 3 to 63 characters of a-z, 0-9 and dash, with no dash at either end"

// CheckKey refuses what cannot be a key.
func CheckKey(key string) error {
	if key == "" || len(key) > queue.R2KeyBytes || !utf8.ValidString(key) {
		return &Error{Status: 400, Code: codeName, Text: fmt.Sprintf("The specified object name is not valid. A key has 1 to %d bytes of UTF-8.", queue.R2KeyBytes)}
	}
	return nil
}

// CheckCustom refuses metadata that is too large.
func CheckCustom(fields []Field) error {
	size := 0
	for _, f := range fields {
		size += len(f.K) + len(f.V)
	}
	if size > queue.R2MetadataBytes {
		return LargeMetadata()
	}
	return nil
}
