package call

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
)

// maxLine is the longest line of progress, in bytes.
const maxLine = 1 << 20

// Follow makes a POST whose answer is lines, and hands them to line until that says that the work is over. It is made once:
// whether a call without an answer had an effect is not known.
func (c *Caller) Follow(ctx context.Context, path string, body any, line func(text []byte) (over bool, err error)) error {
	text, err := marshal(body)
	if err != nil {
		return err
	}
	u := *c.Base
	u.Path += path
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+c.Token)
	r.Header.Set("Content-Type", "application/json")
	response, err := c.HTTP.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return c.unreachable(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxLine)
	if response.StatusCode >= http.StatusBadRequest {
		lines.Scan()
		return failure(response.StatusCode, lines.Bytes())
	}
	for lines.Scan() {
		if over, err := line(lines.Bytes()); over || err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &Error{
		Code: "answer_cut", Message: "the server's answer ends before the work does",
		Hint: "what was done stays done; look at the queue and call again",
	}
}

// unreachable is the error for a server that gave no answer.
func (c *Caller) unreachable(err error) *Error {
	return &Error{
		Code: "server_unreachable", Message: fmt.Sprintf("%s does not answer: %s", c.Base, reason(err)),
		Hint: "is celld running there? Name another with --server URL",
	}
}
