package r2

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/r2"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// moving puts off the end of a transfer with each read.
type moving struct {
	io.Reader
	w   http.ResponseWriter
	set func(*http.ResponseController, time.Time) error
}

// Read implements io.Reader.
func (m *moving) Read(into []byte) (int, error) {
	_ = m.set(http.NewResponseController(m.w), time.Now().Add(queue.R2IdleTime)) // a broken connection says so when it is used
	return m.Reader.Read(into)
}

// cursor is where the next stretch of a list begins.
type cursor struct {
	Key    string `json:"k"`
	Prefix bool   `json:"p,omitempty"`
}

// place is that of a stretch of objects.
type place struct {
	wire.After
	PerPage   int      `json:"per_page"`
	Cut       bool     `json:"is_truncated"`
	Delimited []string `json:"delimited"`
}

// objects answers with a stretch of the objects of a bucket.
func (s *Service) objects(w http.ResponseWriter, c *wire.Call) error {
	b, err := s.find(c)
	if err != nil {
		return err
	}
	q := c.URL.Query()
	list := &r2.Query{Prefix: q.Get("prefix"), Delimiter: q.Get("delimiter"), After: q.Get("start_after"), Limit: queue.R2Page, About: true}
	if text := q.Get("per_page"); text != "" {
		if list.Limit, err = strconv.Atoi(text); err != nil || list.Limit < 1 || list.Limit > queue.R2Page {
			return failed(r2.MaxKeys())
		}
	}
	if text := q.Get("cursor"); text != "" {
		var from cursor
		raw, err := base64.RawURLEncoding.DecodeString(text)
		if err == nil {
			err = json.Unmarshal(raw, &from)
		}
		if err != nil || from.Key == "" {
			return refusef("the cursor is none of a list")
		}
		list.After, list.Skip = from.Key, from.Prefix
	}
	page, err := s.o.Buckets.List(c.Context(), b.name, list)
	if err != nil {
		return failed(err)
	}
	out := make([]map[string]any, len(page.Objects))
	for i := range page.Objects {
		out[i] = describe(&page.Objects[i])
	}
	at := place{After: wire.After{Count: len(out)}, PerPage: list.Limit, Cut: page.Last != "", Delimited: append([]string{}, page.Prefixes...)}
	if at.Cut {
		text, err := json.Marshal(cursor{page.Last, page.LastIsPrefix})
		if err != nil {
			return err
		}
		at.Cursor = base64.RawURLEncoding.EncodeToString(text)
	}
	wire.Stretch(w, out, at)
	return nil
}

// describe is an object in Cloudflare's shape.
func describe(o *r2.Info) map[string]any {
	custom := map[string]string{}
	for _, f := range o.Custom {
		custom[f.K] = f.V
	}
	return map[string]any{
		"key": o.Key, "size": o.Size, "etag": o.Etag, "version": o.Version, "last_modified": wire.Stamp(o.Uploaded), "uploaded": wire.Stamp(o.Uploaded),
		"http_metadata": o.HTTP, "custom_metadata": custom, "storage_class": storageClass, "ssec": false,
	}
}

// expiry reads when an object expires, in milliseconds since 1970, for which there are two forms.
func expiry(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	if _, err := strconv.ParseInt(text, 10, 64); err == nil {
		return text, nil
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return "", refusef("%q is no time of HTTP for expires", text)
	}
	return strconv.FormatInt(at.UnixMilli(), 10), nil
}

// put sets an object to the body of the call.
func (s *Service) put(w http.ResponseWriter, c *wire.Call) error {
	b, err := s.find(c)
	if err != nil {
		return err
	}
	key := c.PathValue("key")
	if err := r2.CheckKey(key); err != nil {
		return failed(err)
	}
	h := &r2.HTTP{
		ContentType: c.Header.Get("Content-Type"), ContentLanguage: c.Header.Get("Content-Language"), ContentDisposition: c.Header.Get("Content-Disposition"),
		ContentEncoding: c.Header.Get("Content-Encoding"), CacheControl: c.Header.Get("Cache-Control"),
	}
	if h.CacheExpiry, err = expiry(c.Header.Get("Expires")); err != nil {
		return err
	}
	if c.ContentLength > queue.R2ObjectBytes {
		return failed(r2.TooLarge())
	}
	body, err := s.o.Buckets.Receive(b.name, &moving{c.Body, w, (*http.ResponseController).SetReadDeadline})
	if err != nil {
		if c.Context().Err() != nil {
			return fault.New(fault.Invalid, "body_cut", "the body ended early").WithCause(err)
		}
		return failed(err)
	}
	info, err := s.o.Buckets.Put(wire.Finished(c), b.name, &r2.Put{Key: key, HTTP: h, Body: body})
	if err != nil {
		return failed(err)
	}
	wire.Answer(w, describe(info))
	return nil
}

// object answers with the body of an object, or a range of it.
func (s *Service) object(w http.ResponseWriter, c *wire.Call) error {
	b, err := s.find(c)
	if err != nil {
		return err
	}
	key := c.PathValue("key")
	if err := r2.CheckKey(key); err != nil {
		return failed(err)
	}
	for try := 1; ; try++ {
		if err := s.objectOnce(w, c, b, key); !errors.Is(err, r2.ErrChanged) || try == queue.R2ReadTries {
			return err
		}
	}
}

func (s *Service) objectOnce(w http.ResponseWriter, c *wire.Call, b *bucket, key string) error {
	o, err := s.o.Buckets.Open(c.Context(), b.name, key)
	if err != nil {
		return failed(err)
	}
	if o == nil {
		return failed(r2.Missing())
	}
	defer o.Close()
	info := o.Info()
	part, partial, err := (&r2.Wanted{Header: c.Header.Get("Range")}).In(info.Size)
	if err != nil {
		return failed(err)
	}
	body, err := o.Body(part)
	if err != nil {
		return failed(err)
	}
	defer body.Close()
	h := w.Header()
	h.Set("Content-Length", strconv.FormatInt(part.Length, 10))
	h.Set("ETag", `"`+info.Etag+`"`)
	h.Set("Last-Modified", info.Uploaded.UTC().Format(http.TimeFormat))
	h.Set("Accept-Ranges", "bytes")
	h.Set("Content-Type", "application/octet-stream")
	if about := info.HTTP; about != nil {
		for name, value := range map[string]string{
			"Content-Type": about.ContentType, "Content-Language": about.ContentLanguage, "Content-Disposition": about.ContentDisposition,
			"Content-Encoding": about.ContentEncoding, "Cache-Control": about.CacheControl,
		} {
			if value != "" {
				h.Set(name, value)
			}
		}
		if ms, err := strconv.ParseInt(about.CacheExpiry, 10, 64); err == nil {
			h.Set("Expires", time.UnixMilli(ms).UTC().Format(http.TimeFormat))
		}
	}
	if partial {
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", part.Offset, part.Offset+part.Length-1, info.Size))
		w.WriteHeader(http.StatusPartialContent)
	}
	if _, err := io.Copy(w, &moving{body, w, (*http.ResponseController).SetWriteDeadline}); err != nil && c.Context().Err() == nil {
		s.o.Log.WarnContext(c.Context(), "an R2 object was not read to its end", "bucket", b.name, "error", fault.Detail(err))
		panic(http.ErrAbortHandler) // what was promised cannot be taken back: the connection breaks
	}
	return nil
}

func (s *Service) deleteObject(w http.ResponseWriter, c *wire.Call) error {
	b, err := s.find(c)
	if err != nil {
		return err
	}
	key := c.PathValue("key")
	if err := r2.CheckKey(key); err != nil {
		return failed(err)
	}
	if err := s.o.Buckets.Delete(wire.Finished(c), b.name, []string{key}); err != nil {
		return failed(err)
	}
	wire.Answer(w, map[string]string{"key": key})
	return nil
}
