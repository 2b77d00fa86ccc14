package binding

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// maxCause bounds the text of an error, in bytes.
const maxCause = 1000

// fail answers with an error. What is no fault of the caller's goes to the log, and the caller learns only that it
// happened.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	f := fault.From(err)
	code, cause := f.Code, f.Error()
	gone := errors.Is(err, context.Canceled) && r.Context().Err() != nil
	if f.Kind == fault.Internal || f.Kind == fault.Environment {
		code, cause = queue.CodeInternal, "Internal error. The log of the server has the details."
		if !gone {
			h.log.ErrorContext(r.Context(), "producer call failed", "binding", r.Header.Get(Header), "call", r.URL.Path, "error", fault.Detail(err))
		}
	}
	w.Header().Set("Cf-Queues-Error-Code", ascii(code))
	w.Header().Set("Cf-Queues-Error-Cause", ascii(cause))
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(status(f.Kind))
}

// status is the HTTP status of a kind of fault. workerd only asks whether it is 200.
func status(k fault.Kind) int {
	switch k {
	case fault.Invalid:
		return http.StatusBadRequest
	case fault.NotFound:
		return http.StatusNotFound
	case fault.Conflict:
		return http.StatusConflict
	case fault.Limit:
		return http.StatusTooManyRequests
	case fault.Unavailable, fault.Timeout:
		return http.StatusServiceUnavailable
	case fault.Environment, fault.Internal:
	}
	return http.StatusInternalServerError
}

// plain are the characters of our own messages that have a form in ASCII.
var plain = map[rune]string{
	'—': "-", '–': "-", '−': "-", '…': "...", '‘': "'", '’': "'", '“': `"`, '”': `"`, '×': "x", '≤': "<=", '≥': ">=", '→': "->", '\u00a0': " ",
}

// ascii makes a text fit for a header: one line of printable ASCII, of bounded length. Other characters are escaped as
// in JavaScript.
func ascii(text string) string {
	var b strings.Builder
	for _, c := range text {
		piece, ok := plain[c]
		switch {
		case c >= ' ' && c <= '~':
			piece = string(c)
		case ok:
		case c < ' ' || c == 0x7f:
			piece = " "
		case c == utf8.RuneError:
			piece = "?"
		default:
			piece = `\u{` + strconv.FormatInt(int64(c), 16) + "}"
		}
		if b.Len()+len(piece) > maxCause {
			b.WriteString("...")
			break
		}
		b.WriteString(piece)
	}
	return strings.TrimSpace(b.String())
}
