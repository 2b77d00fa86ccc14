package kv

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/kv"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// keys answers with a page of keys. A cursor is the last key of the page before.
func (s *service) keys(w http.ResponseWriter, c *wire.Call) error {
	n, err := s.find(c)
	if err != nil {
		return err
	}
	q := c.URL.Query()
	limit, err := kv.Limit(q.Get("limit"))
	if err != nil {
		return failed(err)
	}
	last, err := base64.RawURLEncoding.DecodeString(q.Get("cursor"))
	if err != nil {
		return refusef("the cursor is none of a list")
	}
	prefix := q.Get("prefix")
	if len(prefix) > queue.KVKeyBytes {
		return failed(kv.CheckKey(prefix))
	}
	page, err := s.o.Namespaces.List(c.Context(), n.identity, kv.Query{Prefix: prefix, After: string(last), Limit: limit})
	if err != nil {
		return failed(err)
	}
	type key struct {
		Name       string          `json:"name"`
		Expiration int64           `json:"expiration,omitempty"`
		Metadata   json.RawMessage `json:"metadata,omitempty"`
	}
	keys := make([]key, len(page.Keys))
	for i := range page.Keys {
		k := &page.Keys[i]
		keys[i] = key{k.Name, k.Expiration, k.Metadata}
	}
	cursor := ""
	if !page.Complete {
		cursor = base64.RawURLEncoding.EncodeToString([]byte(page.Keys[len(page.Keys)-1].Name))
	}
	wire.Stretch(w, keys, wire.After{Count: len(keys), Cursor: cursor})
	return nil
}

// entry reads the value of a call and calls use with it while there is room for it.
func (s *service) entry(c *wire.Call, use func(e *kv.Entry)) error {
	n, err := s.find(c)
	if err != nil {
		return err
	}
	key := c.PathValue("key")
	if err := kv.CheckKey(key); err != nil {
		return failed(err)
	}
	for most := queue.KVSmallBytes; ; {
		size, err := s.within(c, n, key, most, use)
		if err != nil || size <= most {
			return err
		}
		most = size
	}
}

// within is entry for a value of at most this many bytes, and returns how many it has.
func (s *service) within(c *wire.Call, n *namespace, key string, most int, use func(e *kv.Entry)) (int, error) {
	if err := s.room.Acquire(c.Context(), int64(most)); err != nil {
		return 0, err
	}
	defer s.room.Release(int64(most))
	e, size, err := s.o.Namespaces.Get(c.Context(), n.identity, key, most)
	switch {
	case err != nil:
		return 0, failed(err)
	case e == nil:
		return 0, fault.New(fault.NotFound, wire.CodeKVKey, "there is no key %q in the KV namespace %s", key, n.title)
	case size <= most:
		use(e)
	}
	return size, nil
}

func (s *service) value(w http.ResponseWriter, c *wire.Call) error {
	return s.entry(c, func(e *kv.Entry) {
		if e.Expiration != 0 {
			w.Header().Set("Expiration", strconv.FormatInt(e.Expiration, 10))
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(queue.KVTransferTime)) // a broken connection says so when it is used
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.Itoa(len(e.Value)))
		_, _ = w.Write(e.Value) // who went away misses only what it asked for
	})
}

func (s *service) metadata(w http.ResponseWriter, c *wire.Call) error {
	return s.entry(c, func(e *kv.Entry) { wire.Answer(w, json.RawMessage(e.Metadata)) })
}

// put sets a value: the body of the call, or the part "value" of a form, beside which stands "metadata".
func (s *service) put(w http.ResponseWriter, c *wire.Call) error {
	n, err := s.find(c)
	if err != nil {
		return err
	}
	q := c.URL.Query()
	e := &kv.Entry{Key: kv.Key{Name: c.PathValue("key")}}
	e.Expiration, err = kv.Expiration(q.Get("expiration"), q.Get("expiration_ttl"), time.Now())
	if err = errors.Join(kv.CheckKey(e.Name), err); err != nil {
		return failed(err)
	}
	release, err := s.take(c, queue.KVValueBytes+queue.MaxAPIBody)
	if err != nil {
		return err
	}
	defer release()
	if kind, _, _ := mime.ParseMediaType(c.Header.Get("Content-Type")); kind == "multipart/form-data" {
		err = readForm(c, e)
	} else {
		e.Value, err = read(c.Body, queue.KVValueBytes)
	}
	if err = errors.Join(err, kv.CheckMetadata(string(e.Metadata))); err != nil {
		return failed(err)
	}
	if err := s.o.Namespaces.PutMany(wire.Finished(c), n.identity, []*kv.Entry{e}); err != nil {
		return failed(err)
	}
	wire.Answer(w, struct{}{})
	return nil
}

// take waits for room for the body of a call, which has at most this many bytes.
func (s *service) take(c *wire.Call, most int64) (release func(), err error) {
	if c.ContentLength >= 0 {
		most = min(most, c.ContentLength)
	}
	if err := s.room.Acquire(c.Context(), most); err != nil {
		return nil, err
	}
	return func() { s.room.Release(most) }, nil
}

// read reads a value of at most this many bytes.
func read(from io.Reader, most int64) ([]byte, error) {
	value, err := io.ReadAll(io.LimitReader(from, most+1))
	switch {
	case err != nil:
		return nil, refusef("the value cannot be read to its end, or is larger than %d bytes", most)
	case int64(len(value)) > most:
		return nil, refusef("the value is larger than %d bytes", most)
	}
	return value, nil
}

// readForm reads the parts of a form.
func readForm(c *wire.Call, e *kv.Entry) error {
	form, err := c.MultipartReader()
	if err != nil {
		return refusef("the body is no form")
	}
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return refusef("the form cannot be read to its end, or is larger than this call takes")
		}
		switch part.FormName() {
		case "value":
			e.Value, err = read(part, queue.KVValueBytes)
		case "metadata":
			e.Metadata, err = read(part, queue.KVMetadataBytes)
		default:
			err = refusef("the form has a part %q: it may have value, and metadata as JSON text", part.FormName())
		}
		if err != nil {
			return err
		}
	}
	if e.Value == nil {
		return refusef("the form has no part value")
	}
	if len(e.Metadata) == 0 {
		e.Metadata = nil
	}
	return nil
}

func (s *service) deleteKey(w http.ResponseWriter, c *wire.Call) error {
	n, err := s.find(c)
	if err != nil {
		return err
	}
	key := c.PathValue("key")
	if err := kv.CheckKey(key); err != nil {
		return failed(err)
	}
	if err := s.o.Namespaces.DeleteMany(wire.Finished(c), n.identity, []string{key}); err != nil {
		return failed(err)
	}
	wire.Answer(w, struct{}{})
	return nil
}
