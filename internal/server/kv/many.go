package kv

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/runlot/runlot/internal/core/kv"
	"github.com/runlot/runlot/internal/core/queue"
)

const jsonType = "application/json"

// list answers with a page of keys. A cursor is the last key of the page before.
func (c *call) list() error {
	q := c.r.URL.Query()
	limit, err := kv.Limit(q.Get("key_count_limit"))
	if err != nil {
		return err
	}
	last, err := base64.RawURLEncoding.DecodeString(q.Get("cursor"))
	if err != nil {
		return kv.Refusef("Invalid cursor.")
	}
	prefix := q.Get("prefix")
	if len(prefix) > queue.KVKeyBytes {
		return kv.CheckKey(prefix)
	}
	page, err := c.namespaces.List(c.r.Context(), c.identity, kv.Query{Prefix: prefix, After: string(last), Limit: limit})
	if err != nil {
		return err
	}
	// The client library reads the metadata of a list as a string with JSON in it.
	type key struct {
		Name       string  `json:"name"`
		Expiration int64   `json:"expiration,omitempty"`
		Metadata   *string `json:"metadata,omitempty"`
	}
	answer := struct {
		Keys     []key  `json:"keys"`
		Complete bool   `json:"list_complete"`
		Cursor   string `json:"cursor,omitempty"`
	}{Keys: make([]key, len(page.Keys)), Complete: page.Complete}
	for i := range page.Keys {
		k := &page.Keys[i]
		answer.Keys[i] = key{Name: k.Name, Expiration: k.Expiration}
		if k.Metadata != nil {
			text := string(k.Metadata)
			answer.Keys[i].Metadata = &text
		}
	}
	if !page.Complete {
		answer.Cursor = base64.RawURLEncoding.EncodeToString([]byte(page.Keys[len(page.Keys)-1].Name))
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	c.write(jsonType, body)
	return nil
}

// bulkRequest is what the client library asks for.
type bulkRequest struct {
	Keys         []string `json:"keys"`
	Type         string   `json:"type"`
	WithMetadata bool     `json:"withMetadata"`
	CacheTTL     string   `json:"cacheTtl"`
}

func (r *bulkRequest) check() error {
	if r.Type == "" {
		r.Type = "text"
	}
	switch {
	case r.Type != "text" && r.Type != "json":
		return kv.Refusef("%q is not a valid type. Use \"json\" or \"text\"", r.Type)
	case len(r.Keys) == 0:
		return kv.Refusef("You must request a minimum of 1 key")
	case len(r.Keys) > queue.KVBulkKeys:
		return kv.Refusef("You can request a maximum of %d keys", queue.KVBulkKeys)
	}
	for _, key := range r.Keys {
		if err := kv.CheckKey(key); err != nil {
			return err
		}
	}
	return kv.CheckCacheTTL(r.CacheTTL)
}

// maxBulkRequest is the most that as many keys as are allowed take as JSON.
const maxBulkRequest = queue.KVBulkKeys * (6*queue.KVKeyBytes + 3)

// bulk answers with the values of several keys, as an object in the order in which they were asked for; null is a key that
// is not there.
func (c *call) bulk() error {
	release, err := c.take(queue.KVBulkBytes)
	if err != nil {
		return err
	}
	defer release()
	body, err := c.body(maxBulkRequest + 4<<10)
	if err != nil {
		return err
	}
	var request bulkRequest
	if err := json.Unmarshal(body, &request); err != nil {
		return kv.Refusef("The request cannot be read.")
	}
	if err := request.check(); err != nil {
		return err
	}
	found, err := c.namespaces.GetMany(c.r.Context(), c.identity, request.Keys, queue.KVBulkBytes)
	if err != nil {
		return err
	}
	answer, err := request.answer(found)
	if err != nil {
		return err
	}
	c.write(jsonType, answer)
	return nil
}

func (r *bulkRequest) answer(found map[string]*kv.Entry) ([]byte, error) {
	var b strings.Builder
	written := make(map[string]bool, len(r.Keys))
	b.WriteByte('{')
	for _, key := range r.Keys {
		if written[key] {
			continue
		}
		if len(written) > 0 {
			b.WriteByte(',')
		}
		written[key] = true
		b.WriteString(text(key))
		b.WriteByte(':')
		entry := found[key]
		if entry == nil {
			b.WriteString("null")
			continue
		}
		value := text(string(entry.Value))
		if r.Type == "json" {
			if !json.Valid(entry.Value) {
				return nil, kv.Refusef("At least one of the requested keys corresponds to a non-JSON value")
			}
			value = string(entry.Value)
		}
		if r.WithMetadata {
			about := "null"
			if entry.Metadata != nil {
				about = string(entry.Metadata)
			}
			value = fmt.Sprintf(`{"value":%s,"metadata":%s}`, value, about)
		}
		b.WriteString(value)
	}
	b.WriteByte('}')
	return []byte(b.String()), nil
}

// text writes a string as JSON; what is not UTF-8 becomes U+FFFD, as when it is read as text.
func text(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic("kv: a string always marshals: " + err.Error())
	}
	return string(b)
}
