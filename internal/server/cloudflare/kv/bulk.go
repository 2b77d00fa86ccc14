package kv

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/runlot/runlot/internal/core/kv"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// pair is a key with its value, as it is written in bulk.
type pair struct {
	Key        string          `json:"key"`
	Value      *string         `json:"value"`
	Base64     bool            `json:"base64"`
	Expiration *int64          `json:"expiration"`
	TTL        *int64          `json:"expiration_ttl"`
	Metadata   json.RawMessage `json:"metadata"`
}

// done is the answer to what changed in bulk.
type done struct {
	Successful   int      `json:"successful_key_count"`
	Unsuccessful []string `json:"unsuccessful_keys"`
}

// elements calls each for every element of the list that a body is, without holding the text of all.
func elements[T any](c *wire.Call, each func(one *T) error) error {
	in := json.NewDecoder(c.Body)
	if t, err := in.Token(); err != nil || t != json.Delim('[') {
		return refusef("the body is no list in JSON")
	}
	for n := 1; in.More(); n++ {
		if n > queue.KVBulkWriteKeys {
			return refusef("a call takes at most %d keys", queue.KVBulkWriteKeys)
		}
		var one T
		if err := in.Decode(&one); err != nil {
			return refusef("element %d of the list is not what this call takes, or the list is too large", n)
		}
		if err := each(&one); err != nil {
			return err
		}
	}
	if _, err := in.Token(); err != nil {
		return refusef("the list ends early, or is too large")
	}
	return nil
}

// putMany sets keys, all or none.
func (s *service) putMany(w http.ResponseWriter, c *wire.Call) error {
	n, err := s.find(c)
	if err != nil {
		return err
	}
	release, err := s.take(c, queue.KVBulkWriteBytes)
	if err != nil {
		return err
	}
	defer release()
	var list []*kv.Entry
	now := time.Now()
	if err := elements(c, func(p *pair) error {
		e, err := p.entry(now)
		list = append(list, e)
		return err
	}); err != nil {
		return failed(err)
	}
	if err := s.o.Namespaces.PutMany(wire.Finished(c), n.identity, list); err != nil {
		return failed(err)
	}
	wire.Answer(w, done{len(list), []string{}})
	return nil
}

func (p *pair) entry(now time.Time) (*kv.Entry, error) {
	text := func(n *int64) string {
		if n == nil {
			return ""
		}
		return strconv.FormatInt(*n, 10)
	}
	e := &kv.Entry{Key: kv.Key{Name: p.Key}}
	if p.Value == nil {
		return nil, refusef("the key %q has no value", p.Key)
	}
	e.Value = []byte(*p.Value)
	var err error
	if p.Base64 {
		if e.Value, err = base64.StdEncoding.DecodeString(*p.Value); err != nil {
			return nil, refusef("the value of the key %q is not base64", p.Key)
		}
	}
	if about := bytes.TrimSpace(p.Metadata); len(about) > 0 && string(about) != "null" {
		var tight bytes.Buffer
		if err := json.Compact(&tight, about); err != nil {
			return nil, refusef("the metadata of the key %q is no JSON", p.Key)
		}
		e.Metadata = tight.Bytes()
	}
	e.Expiration, err = kv.Expiration(text(p.Expiration), text(p.TTL), now)
	err = errors.Join(kv.CheckKey(p.Key), kv.CheckValue(int64(len(e.Value))), kv.CheckMetadata(string(e.Metadata)), err)
	if broken, ok := errors.AsType[*kv.Error](err); ok {
		return nil, refusef("the key %q: %s", p.Key, broken.Text)
	}
	return e, err
}

// deleteMany deletes keys, all or none.
func (s *service) deleteMany(w http.ResponseWriter, c *wire.Call) error {
	n, err := s.find(c)
	if err != nil {
		return err
	}
	release, err := s.take(c, queue.KVBulkWriteBytes)
	if err != nil {
		return err
	}
	defer release()
	var keys []string
	if err := elements(c, func(key *named) error {
		keys = append(keys, string(*key))
		return kv.CheckKey(string(*key))
	}); err != nil {
		return failed(err)
	}
	if err := s.o.Namespaces.DeleteMany(wire.Finished(c), n.identity, keys); err != nil {
		return failed(err)
	}
	wire.Answer(w, done{len(keys), []string{}})
	return nil
}

// named is a key by itself, or as the name of an object, as lists of keys have it.
type named string

// UnmarshalJSON implements json.Unmarshaler.
func (n *named) UnmarshalJSON(text []byte) error {
	var object struct {
		Name *string `json:"name"`
	}
	if json.Unmarshal(text, &object) == nil && object.Name != nil {
		*n = named(*object.Name)
		return nil
	}
	return json.Unmarshal(text, (*string)(n))
}

// getMany answers with the values of several keys; null is one that is not there.
func (s *service) getMany(w http.ResponseWriter, c *wire.Call) error {
	n, err := s.find(c)
	if err != nil {
		return err
	}
	in, err := wire.Body[struct {
		Keys         []string `json:"keys"`
		Type         string   `json:"type"`
		WithMetadata bool     `json:"withMetadata"`
	}](c)
	if err != nil {
		return err
	}
	if len(in.Keys) == 0 || len(in.Keys) > queue.KVBulkKeys {
		return refusef("a call asks for 1 to %d keys", queue.KVBulkKeys)
	}
	if in.Type != "" && in.Type != "text" && in.Type != "json" {
		return refusef("%q is no type of values: it is text or json", in.Type)
	}
	for _, key := range in.Keys {
		if err := kv.CheckKey(key); err != nil {
			return failed(err)
		}
	}
	if err := s.room.Acquire(c.Context(), 2*queue.KVBulkBytes); err != nil { // the values, and the answer
		return err
	}
	defer s.room.Release(2 * queue.KVBulkBytes)
	found, err := s.o.Namespaces.GetMany(c.Context(), n.identity, in.Keys, queue.KVBulkBytes)
	if err != nil {
		return failed(err)
	}
	values := make(map[string]any, len(in.Keys))
	for _, key := range in.Keys {
		e := found[key]
		if e == nil {
			values[key] = nil
			continue
		}
		var value any = string(e.Value)
		if in.Type == "json" {
			if !json.Valid(e.Value) {
				return refusef("the value of the key %q is no JSON", key)
			}
			value = json.RawMessage(e.Value)
		}
		if in.WithMetadata {
			one := map[string]any{"value": value, "metadata": json.RawMessage(e.Metadata)}
			if e.Expiration != 0 {
				one["expiration"] = e.Expiration
			}
			value = one
		}
		values[key] = value
	}
	wire.Answer(w, map[string]any{"values": values})
	return nil
}
