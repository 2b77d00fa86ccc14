package r2

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/r2"
)

// number is a 64-bit integer, which comes as a string or as a number.
type number int64

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(text []byte) error {
	if len(text) > 1 && text[0] == '"' {
		text = text[1 : len(text)-1]
	}
	v, err := strconv.ParseInt(string(text), 10, 64)
	*n = number(v)
	return err
}

func (n *number) value() *int64 { return (*int64)(n) }

// milliseconds is a time; nil is none.
func (n *number) milliseconds() time.Time {
	if n == nil {
		return time.Time{}
	}
	return time.UnixMilli(int64(*n))
}

type wireEtag struct {
	Value string `json:"value"`
	Type  string `json:"type"`
}

type wireCondition struct {
	Matches      []wireEtag `json:"etagMatches"`
	DoesNotMatch []wireEtag `json:"etagDoesNotMatch"`
	Before       *number    `json:"uploadedBefore"`
	After        *number    `json:"uploadedAfter"`
	Seconds      bool       `json:"secondsGranularity"`
}

func (c *wireCondition) condition() *r2.Condition {
	if c == nil {
		return nil
	}
	etags := func(list []wireEtag) []r2.Etag {
		if list == nil {
			return nil // no condition, unlike an empty list
		}
		out := make([]r2.Etag, 0, len(list))
		for _, e := range list {
			out = append(out, r2.Etag{Value: e.Value, Weak: e.Type == "weak", Any: e.Type == "wildcard"})
		}
		return out
	}
	return &r2.Condition{
		Matches: etags(c.Matches), DoesNotMatch: etags(c.DoesNotMatch), Before: c.Before.milliseconds(), After: c.After.milliseconds(), Seconds: c.Seconds,
	}
}

// request is what the client library asks for; which fields count depends on the method.
type request struct {
	Method string   `json:"method"`
	Object string   `json:"object"`
	Keys   []string `json:"objects"`
	Range  *struct {
		Offset *number `json:"offset"`
		Length *number `json:"length"`
		Suffix *number `json:"suffix"`
	} `json:"range"`
	RangeHeader string          `json:"rangeHeader"`
	OnlyIf      *wireCondition  `json:"onlyIf"`
	Custom      []r2.Field      `json:"customFields"`
	HTTP        *r2.HTTP        `json:"httpFields"`
	MD5         string          `json:"md5"`
	SHA1        string          `json:"sha1"`
	SHA256      string          `json:"sha256"`
	SHA384      string          `json:"sha384"`
	SHA512      string          `json:"sha512"`
	SSEC        json.RawMessage `json:"ssec"`
	Limit       *int            `json:"limit"`
	Prefix      string          `json:"prefix"`
	Cursor      string          `json:"cursor"`
	Delimiter   string          `json:"delimiter"`
	StartAfter  string          `json:"startAfter"`
	Include     []int           `json:"include"`
	NewRuntime  bool            `json:"newRuntime"`
	UploadID    string          `json:"uploadId"`
	Number      int             `json:"partNumber"`
	Parts       []struct {
		Etag string `json:"etag"`
		Part int    `json:"part"`
	} `json:"parts"`
}

func decode(text []byte) (*request, error) {
	var q request
	if err := json.Unmarshal(text, &q); err != nil {
		return nil, r2.Argumentf("The call cannot be read.")
	}
	if q.SSEC != nil {
		return nil, r2.Argumentf("Keys of the caller's own (ssecKey) are not supported.")
	}
	return &q, nil
}

func (q *request) wanted() *r2.Wanted {
	w := &r2.Wanted{Header: q.RangeHeader}
	if q.Range != nil {
		w.Offset, w.Length, w.Suffix = q.Range.Offset.value(), q.Range.Length.value(), q.Range.Suffix.value()
	}
	return w
}

// checksums are those that the caller gave, in hexadecimal.
func (q *request) checksums() (map[string]string, error) {
	sums := map[string]string{}
	if q.MD5 != "" {
		raw, err := base64.StdEncoding.DecodeString(q.MD5)
		if err != nil {
			return nil, r2.Argumentf("The MD5 checksum cannot be read.")
		}
		sums["md5"] = hex.EncodeToString(raw)
	}
	for name, value := range map[string]string{sha1: q.SHA1, sha256: q.SHA256, sha384: q.SHA384, sha512: q.SHA512} {
		if value != "" {
			sums[name] = value
		}
	}
	return sums, nil
}

// cursor is where the next page of a list begins.
type cursor struct {
	Key    string `json:"k"`
	Prefix bool   `json:"p,omitempty"`
}

func (q *request) query() (*r2.Query, error) {
	list := &r2.Query{Prefix: q.Prefix, Delimiter: q.Delimiter, After: q.StartAfter, Limit: queue.R2Page, About: !q.NewRuntime || len(q.Include) > 0}
	if q.Limit != nil {
		list.Limit = *q.Limit
	}
	if list.Limit < 1 || list.Limit > queue.R2Page {
		return nil, r2.MaxKeys()
	}
	if q.Cursor != "" {
		var c cursor
		text, err := base64.RawURLEncoding.DecodeString(q.Cursor)
		if err == nil {
			err = json.Unmarshal(text, &c)
		}
		if err != nil || c.Key == "" {
			return nil, r2.Argumentf("The cursor is not valid.")
		}
		list.After, list.Skip = c.Key, c.Prefix
	}
	return list, nil
}

// wireObject is an object in an answer.
type wireObject struct {
	Name      string            `json:"name"`
	Version   string            `json:"version"`
	Size      string            `json:"size"`
	Etag      string            `json:"etag"`
	Uploaded  string            `json:"uploaded"`
	HTTP      *r2.HTTP          `json:"httpFields,omitempty"`
	Custom    []r2.Field        `json:"customFields,omitempty"`
	Range     *wireRange        `json:"range,omitempty"`
	Checksums map[string]string `json:"checksums"`
	Class     string            `json:"storageClass"`
}

type wireRange struct {
	Offset string `json:"offset"`
	Length string `json:"length"`
}

// checksumNames are how the client library calls checksums.
var checksumNames = map[string]string{"md5": "0", sha1: "1", sha256: "2", sha384: "3", sha512: "4"}

func wire(o *r2.Info) *wireObject {
	w := &wireObject{
		Name: o.Key, Version: o.Version, Size: strconv.FormatInt(o.Size, 10), Etag: o.Etag, Uploaded: strconv.FormatInt(o.Uploaded.UnixMilli(), 10),
		HTTP: o.HTTP, Custom: o.Custom, Checksums: make(map[string]string, len(o.Checksums)), Class: "Standard",
	}
	for name, sum := range o.Checksums {
		w.Checksums[checksumNames[name]] = sum
	}
	return w
}

// page writes the answer to a list.
func (q *request) page(p *r2.Page) ([]byte, error) {
	answer := struct {
		Objects  []*wireObject `json:"objects"`
		Cut      bool          `json:"truncated"`
		Cursor   string        `json:"cursor,omitempty"`
		Prefixes []string      `json:"delimitedPrefixes"`
	}{Objects: make([]*wireObject, len(p.Objects)), Cut: p.Last != "", Prefixes: append([]string{}, p.Prefixes...)}
	var http, custom bool
	for _, field := range q.Include {
		http, custom = http || field == 0, custom || field == 1
	}
	for i := range p.Objects {
		answer.Objects[i] = wire(&p.Objects[i])
		if q.NewRuntime && !http {
			answer.Objects[i].HTTP = nil
		}
		if q.NewRuntime && !custom {
			answer.Objects[i].Custom = nil
		}
	}
	if answer.Cut {
		text, err := json.Marshal(cursor{p.Last, p.LastIsPrefix})
		if err != nil {
			return nil, err
		}
		answer.Cursor = base64.RawURLEncoding.EncodeToString(text)
	}
	return json.Marshal(answer)
}
