// Package r2 answers what workerd's own R2 client calls for the bindings of env. One handler serves one worker process on a
// private unix socket.
package r2

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/r2"
)

const (
	// Header is the request header in which the runtime names the binding that is called. User code cannot set it.
	Header = "Runlot-R2"
	// requestHeader carries what a read asks for, sizeHeader says how many bytes of JSON stand before a body, and
	// errorHeader carries an error.
	requestHeader = "Cf-R2-Request"
	sizeHeader    = "Cf-R2-Metadata-Size"
	errorHeader   = "Cf-R2-Error"
)

// Names that the client library sends.
const (
	methodHead   = "head"
	methodPut    = "put"
	methodDelete = "delete"
	methodGet    = "get"
	sha1         = "sha1"
	sha256       = "sha256"
	sha384       = "sha384"
	sha512       = "sha512"
)

// Buckets are the buckets as bindings need them. What the caller may see of a failure is a *r2.Error. What writes returns
// when the change is on the disk.
type Buckets interface {
	// Receive brings a body to the disk; checksums are computed beside md5.
	Receive(bucket string, body io.Reader, checksums ...string) (r2.Body, error)
	// Put has the body from now on, whatever comes of it.
	Put(ctx context.Context, bucket string, p *r2.Put) (*r2.Info, error)
	// Open returns an object, or nil. The caller closes it.
	Open(ctx context.Context, bucket, key string) (r2.Object, error)
	Delete(ctx context.Context, bucket string, keys []string) error
	List(ctx context.Context, bucket string, q *r2.Query) (*r2.Page, error)
	// Create begins a multipart upload and returns its id.
	Create(ctx context.Context, bucket, key string, http *r2.HTTP, custom []r2.Field) (string, error)
	// UploadPart returns the etag of the part. It has the body from now on, whatever comes of it.
	UploadPart(ctx context.Context, bucket, key, id string, number int, body r2.Body) (string, error)
	Complete(ctx context.Context, bucket, key, id string, parts []r2.Part) (*r2.Info, error)
	Abort(ctx context.Context, bucket, key, id string) error
}

// Door is what the handlers of all worker processes of a node share.
type Door struct {
	buckets Buckets
	log     *slog.Logger
}

// NewDoor returns a door to the buckets. log takes what callers must not see.
func NewDoor(buckets Buckets, log *slog.Logger) *Door { return &Door{buckets, log} }

// Handler returns the handler for one worker process, whose app has this manifest.
func (d *Door) Handler(m *app.Manifest) http.Handler {
	buckets := make(map[string]string, len(m.R2Buckets))
	for i := range m.R2Buckets {
		buckets[m.R2Buckets[i].Binding] = m.R2Buckets[i].Bucket
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{Door: d, w: w, r: r}
		var known bool
		if c.bucket, known = buckets[r.Header.Get(Header)]; !known {
			c.fail(r2.Argumentf("the app has no such R2 bucket"))
			return
		}
		if err := c.serve(); err != nil {
			c.fail(err)
		}
	})
}

// call is one request.
type call struct {
	*Door
	w      http.ResponseWriter
	r      *http.Request
	bucket string
}

func (c *call) serve() error {
	switch c.r.Method {
	case http.MethodGet:
		q, err := decode([]byte(c.r.Header.Get(requestHeader)))
		if err != nil {
			return err
		}
		switch q.Method {
		case methodHead, methodGet:
			return c.get(q)
		case "list":
			return c.list(q)
		}
	case http.MethodPut:
		q, err := c.head()
		if err != nil {
			return err
		}
		return c.change(q)
	}
	return r2.Argumentf("there is no such call")
}

// head reads the JSON that stands before a body.
func (c *call) head() (*request, error) {
	size, err := strconv.Atoi(c.r.Header.Get(sizeHeader))
	if err != nil || size < 0 || size > queue.R2RequestBytes {
		return nil, r2.Argumentf("The call is larger than %d bytes.", queue.R2RequestBytes)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(c.body(), text); err != nil {
		return nil, r2.Argumentf("The request ended early.")
	}
	return decode(text)
}

// body reads what is left of the request's body, which must not stand still.
func (c *call) body() io.Reader {
	return &moving{c.r.Body, c.w, (*http.ResponseController).SetReadDeadline}
}

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

// get answers with an object. One that changes between the look at it and at its body is looked at again.
func (c *call) get(q *request) error {
	if err := r2.CheckKey(q.Object); err != nil {
		return err
	}
	for try := 1; ; try++ {
		if err := c.getOnce(q); !errors.Is(err, r2.ErrChanged) || try == queue.R2ReadTries {
			return err
		}
	}
}

func (c *call) getOnce(q *request) error {
	o, err := c.buckets.Open(c.r.Context(), c.bucket, q.Object)
	if err != nil {
		return err
	}
	if o == nil {
		return r2.Missing()
	}
	defer o.Close()
	info := o.Info()
	about := wire(info)
	if q.Method == methodHead {
		return c.answer(http.StatusOK, about, nil, 0)
	}
	if !q.OnlyIf.condition().Holds(info) {
		c.setError(r2.Precondition())
		return c.answer(http.StatusPreconditionFailed, about, nil, 0)
	}
	r, partial, err := q.wanted().In(info.Size)
	if err != nil {
		return err
	}
	if partial {
		about.Range = &wireRange{strconv.FormatInt(r.Offset, 10), strconv.FormatInt(r.Length, 10)}
	}
	body, err := o.Body(r)
	if err != nil {
		return err
	}
	defer body.Close()
	return c.answer(http.StatusOK, about, body, r.Length)
}

// answer writes JSON and behind it a body of this size, which may be nil.
func (c *call) answer(status int, about any, body io.Reader, size int64) error {
	text, err := json.Marshal(about)
	if err != nil {
		return err
	}
	c.w.Header().Set(sizeHeader, strconv.Itoa(len(text)))
	c.w.Header().Set("Content-Length", strconv.FormatInt(int64(len(text))+size, 10))
	c.w.Header().Set("Content-Type", "application/octet-stream")
	c.w.WriteHeader(status)
	if _, err := c.w.Write(text); err != nil || body == nil {
		return nil //nolint:nilerr // the worker went away, and nobody is left to tell
	}
	_, err = io.Copy(c.w, &moving{body, c.w, (*http.ResponseController).SetWriteDeadline})
	if err != nil && c.r.Context().Err() == nil {
		c.log.WarnContext(c.r.Context(), "an R2 object was not read to its end", "binding", c.r.Header.Get(Header), "error", fault.Detail(err))
	}
	return nil // what was promised cannot be taken back: the connection breaks
}

func (c *call) list(q *request) error {
	query, err := q.query()
	if err != nil {
		return err
	}
	page, err := c.buckets.List(c.r.Context(), c.bucket, query)
	if err != nil {
		return err
	}
	text, err := q.page(page)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, json.RawMessage(text), nil, 0)
}

// change carries out a call that changes the bucket.
func (c *call) change(q *request) error {
	ctx := c.r.Context()
	if q.Method != methodDelete {
		if err := errors.Join(r2.CheckKey(q.Object), r2.CheckCustom(q.Custom)); err != nil {
			return err
		}
	}
	switch q.Method {
	case methodPut:
		return c.put(q)
	case methodDelete:
		keys := q.Keys
		if q.Object != "" {
			keys = append(keys, q.Object)
		}
		if len(keys) > queue.R2DeleteKeys {
			return r2.Argumentf("A delete names at most %d keys.", queue.R2DeleteKeys)
		}
		return c.done(struct{}{}, c.buckets.Delete(ctx, c.bucket, keys))
	case "createMultipartUpload":
		id, err := c.buckets.Create(ctx, c.bucket, q.Object, q.HTTP, q.Custom)
		return c.done(map[string]string{"uploadId": id}, err)
	case "uploadPart":
		return c.part(q)
	case "completeMultipartUpload":
		parts := make([]r2.Part, len(q.Parts))
		for i, p := range q.Parts {
			parts[i] = r2.Part{Number: p.Part, Etag: p.Etag}
		}
		slices.SortFunc(parts, func(a, b r2.Part) int { return a.Number - b.Number })
		info, err := c.buckets.Complete(ctx, c.bucket, q.Object, q.UploadID, parts)
		if err != nil {
			return err
		}
		return c.done(wire(info), nil)
	case "abortMultipartUpload":
		return c.done(struct{}{}, c.buckets.Abort(ctx, c.bucket, q.Object, q.UploadID))
	}
	return r2.Argumentf("there is no such call")
}

// done answers a change.
func (c *call) done(about any, err error) error {
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, about, nil, 0)
}

func (c *call) put(q *request) error {
	given, err := q.checksums()
	if err != nil {
		return err
	}
	body, err := c.receive(slices.Sorted(maps.Keys(given))...)
	if err != nil {
		return err
	}
	for name, sum := range given {
		if actual := body.Sum(name); !strings.EqualFold(actual, sum) {
			body.Discard()
			return r2.Digest(checksumTitles[name], sum, actual)
		}
	}
	info, err := c.buckets.Put(c.r.Context(), c.bucket, &r2.Put{Key: q.Object, HTTP: q.HTTP, Custom: q.Custom, OnlyIf: q.OnlyIf.condition(), Body: body})
	if err != nil {
		return err
	}
	return c.done(wire(info), nil)
}

// checksumTitles are the names of checksums for people.
var checksumTitles = map[string]string{"md5": "MD5", sha1: "SHA-1", sha256: "SHA-256", sha384: "SHA-384", sha512: "SHA-512"}

// receive brings the body of the request to the disk.
func (c *call) receive(checksums ...string) (r2.Body, error) {
	if c.r.ContentLength > queue.R2ObjectBytes+queue.R2RequestBytes {
		return nil, r2.TooLarge()
	}
	return c.buckets.Receive(c.bucket, c.body(), checksums...)
}

func (c *call) part(q *request) error {
	if q.Number < 1 || q.Number > queue.R2Parts {
		return r2.Argumentf("Part number must be between 1 and %d.", queue.R2Parts)
	}
	body, err := c.receive()
	if err != nil {
		return err
	}
	etag, err := c.buckets.UploadPart(c.r.Context(), c.bucket, q.Object, q.UploadID, q.Number, body)
	return c.done(map[string]string{"etag": etag}, err)
}

// fail answers with an error. What is no fault of the caller's goes to the log, and the caller learns only that it happened.
func (c *call) fail(err error) {
	e, known := errors.AsType[*r2.Error](err)
	if !known {
		if c.r.Context().Err() != nil {
			return
		}
		c.log.ErrorContext(c.r.Context(), "R2 call failed", "binding", c.r.Header.Get(Header), "error", fault.Detail(err))
		e = r2.Internal("internal error; the log of the server has the details")
	}
	// workerd sends the whole body before it looks at the answer.
	_, _ = io.CopyN(io.Discard, c.body(), queue.MaxBindingDiscard)
	c.setError(e)
	c.w.WriteHeader(e.Status)
}

// setError puts an error into the header from which the client library reads it.
func (c *call) setError(err error) {
	e, ok := errors.AsType[*r2.Error](err)
	if !ok {
		return
	}
	text, err := json.Marshal(struct {
		Version int    `json:"version"`
		Code    int    `json:"v4code"`
		Text    string `json:"message"`
	}{1, e.Code, e.Text})
	if err == nil {
		c.w.Header().Set(errorHeader, string(text))
	}
}
