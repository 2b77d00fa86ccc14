// Package call makes calls of the API: it repeats those that found nobody, bounds what it reads, and turns refusals into errors.
package call

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// maxAnswer is the largest answer that is read, in bytes.
	maxAnswer = 64 << 20
	// tries is how often a call is made that found nobody, or that may be repeated; pause is the first wait between two,
	// doubling.
	tries = 4
	pause = 100 * time.Millisecond
)

// Caller calls one server. It may be used from several goroutines.
type Caller struct {
	Base  *url.URL
	Token string
	HTTP  *http.Client
}

// JSON makes a call with a JSON body, which may be nil, and decodes the answer into result, which may be nil.
func (c *Caller) JSON(ctx context.Context, method, path string, query url.Values, body, result any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = marshal(body); err != nil {
			return err
		}
	}
	return c.Send(ctx, method, path, query, "application/json", text, result)
}

// marshal writes a value as JSON, and bodies of messages in it as they are.
func marshal(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return text.Bytes(), err
}

// Send makes a call with a body of any kind and decodes the answer into result, which may be nil. A call that found nobody is
// made again, a few times.
func (c *Caller) Send(ctx context.Context, method, path string, query url.Values, kind string, body []byte, result any) error {
	u := *c.Base
	u.Path += path
	u.RawQuery = query.Encode()
	// The key makes it harmless to repeat a call whose answer was lost.
	key := rand.Text()
	wait := pause
	for try := 1; ; try++ {
		answer, err := c.once(ctx, method, u.String(), kind, key, body)
		if err == nil {
			if result == nil || len(answer) == 0 {
				return nil
			}
			if err := json.Unmarshal(answer, result); err != nil {
				return &Error{Code: "answer_invalid", Message: "the server's answer cannot be read", Hint: "is " + c.Base.String() + " the operator address of celld?"}
			}
			return nil
		}
		if _, answered := errors.AsType[*Error](err); answered {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if try == tries {
			return c.unreachable(err)
		}
		select {
		case <-time.After(wait):
			wait *= 2
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// reason is the last part of a network error, which says it best.
func reason(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	text := err.Error()
	return strings.TrimSpace(text[strings.LastIndex(text, ": ")+1:])
}

// once makes one try. An *Error is the server's answer; any other error is that there was none.
func (c *Caller) once(ctx context.Context, method, address, kind, key string, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	if body != nil {
		r.Header.Set("Content-Type", kind)
	}
	if method == http.MethodPost {
		r.Header.Set("Idempotency-Key", key)
	}
	response, err := c.HTTP.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return nil, err
	}
	if len(answer) > maxAnswer {
		return nil, &Error{Status: response.StatusCode, Code: "answer_large", Message: "the server's answer is too large"}
	}
	if response.StatusCode < http.StatusBadRequest {
		return answer, nil
	}
	return nil, failure(response.StatusCode, answer)
}

// failure is the error in an answer.
func failure(status int, answer []byte) *Error {
	var own struct {
		Error *Error `json:"error"`
	}
	if json.Unmarshal(answer, &own) == nil && own.Error != nil && own.Error.Message != "" {
		own.Error.Status = status
		return own.Error
	}
	return &Error{Status: status, Code: "http_" + strconv.Itoa(status), Message: fmt.Sprintf("the server answered %d %s", status, http.StatusText(status))}
}
