package binding

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// decodeBatch reads the frame of a sendBatch call. Frames as workerd writes them are scanned in one pass; any other is
// read with encoding/json, which also finds the error.
func decodeBatch(frame []byte) ([]queue.Draft, error) {
	if drafts, ok := scanBatch(frame); ok {
		return drafts, nil
	}
	return parseBatch(frame)
}

// scanBatch reads a frame of exactly workerd's form:
//
//	{"messages":[{"body":"<base64>","contentType":"json","delaySecs": 1},…]}
//
// with contentType and delaySecs optional. It reports false for every other form, right or wrong.
func scanBatch(frame []byte) ([]queue.Draft, bool) {
	s := scanner{frame}
	if !s.skip(`{"messages":[`) {
		return nil, false
	}
	drafts := make([]queue.Draft, 0, queue.MaxSendBatch)
	for {
		var d queue.Draft
		if !s.skip(`{"body":"`) {
			return nil, false
		}
		text, ok := s.until('"')
		if !ok {
			return nil, false
		}
		if d.Body, ok = decodeBody(text); !ok {
			return nil, false
		}
		d.Format = queue.V8
		if s.skip(`,"contentType":"`) {
			name, ok := s.until('"')
			if !ok {
				return nil, false
			}
			if d.Format, ok = queue.ParseFormat(string(name)); !ok {
				return nil, false
			}
		}
		if s.skip(`,"delaySecs":`) {
			s.skip(" ")
			delay, ok := s.delay()
			if !ok {
				return nil, false
			}
			d.Delay = &delay
		}
		drafts = append(drafts, d)
		switch {
		case s.skip(`},`):
		case s.skip(`}]}`):
			return drafts, len(s.rest) == 0
		default:
			return nil, false
		}
	}
}

type scanner struct{ rest []byte }

// skip steps over text when it comes next.
func (s *scanner) skip(text string) bool {
	if len(s.rest) < len(text) || string(s.rest[:len(text)]) != text {
		return false
	}
	s.rest = s.rest[len(text):]
	return true
}

// until returns what comes before c and steps over c.
func (s *scanner) until(c byte) ([]byte, bool) {
	i := bytes.IndexByte(s.rest, c)
	if i < 0 {
		return nil, false
	}
	text := s.rest[:i]
	s.rest = s.rest[i+1:]
	return text, true
}

// delay reads a whole number of seconds, as JSON writes it.
func (s *scanner) delay() (time.Duration, bool) {
	negative := s.skip("-")
	var n int64
	i := 0
	for ; i < len(s.rest) && s.rest[i] >= '0' && s.rest[i] <= '9'; i++ {
		if n = n*10 + int64(s.rest[i]-'0'); n > math.MaxInt32 {
			return 0, false
		}
	}
	if i == 0 || i > 1 && s.rest[0] == '0' {
		return 0, false
	}
	s.rest = s.rest[i:]
	if negative {
		n = -n
	}
	return time.Duration(n) * time.Second, true
}

// decodeBody decodes base64 into memory of its own: the messages of a batch live for different times, and one that
// stays must not hold the rest.
func decodeBody(text []byte) ([]byte, bool) {
	body := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(body, text)
	// The decoder skips line ends, which a body never has.
	return body[:n], err == nil && base64.StdEncoding.EncodedLen(n) == len(text)
}

// parseBatch reads any frame and says what is wrong with it.
func parseBatch(frame []byte) ([]queue.Draft, error) {
	var batch struct {
		Messages []struct {
			Body        *string  `json:"body"`
			ContentType string   `json:"contentType"`
			DelaySecs   *float64 `json:"delaySecs"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(frame, &batch); err != nil {
		if wrongType, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, fault.New(fault.Invalid, queue.CodeBodyInvalid, "the batch request has a %s as %q", wrongType.Value, wrongType.Field)
		}
		return nil, fault.New(fault.Invalid, queue.CodeBodyMalformed, "the batch request is not JSON").WithCause(err)
	}
	drafts := make([]queue.Draft, len(batch.Messages))
	for i := range batch.Messages {
		m, d := &batch.Messages[i], &drafts[i]
		var ok bool
		if m.Body == nil {
			return nil, fault.New(fault.Invalid, queue.CodeBodyInvalid, "message %d has no body", i)
		}
		if d.Body, ok = decodeBody([]byte(*m.Body)); !ok {
			return nil, fault.New(fault.Invalid, queue.CodeBodyInvalid, "message %d: the body is not base64", i)
		}
		if d.Format, ok = queue.ParseFormat(m.ContentType); !ok {
			f := unknownFormat(m.ContentType)
			return nil, fault.New(f.Kind, f.Code, "message %d: %s", i, f.Message)
		}
		if m.DelaySecs == nil {
			continue
		}
		delay, ok := seconds(*m.DelaySecs)
		if !ok {
			return nil, fault.New(fault.Invalid, queue.CodeMetadataInvalid, "message %d: delay of %g seconds is not a whole number", i, *m.DelaySecs)
		}
		d.Delay = &delay
	}
	return drafts, nil
}
