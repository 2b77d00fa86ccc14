package reason

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/runlot/runlot/internal/core/queue"
)

// A failure on stderr is one line, or two when there is a stack:
//
//	workerd/jsg/util.c++:320: error: e = kj/async.c++:10: failed: TLS handshake failed
//	stack: …; sentryErrorContext = jsgInternalError; wdErrId = 456ulo3j6rt7crh3dmv1b8jq
var (
	failureLine = regexp.MustCompile(`^\S+:\d+: error: e = (?:\S+:\d+: )?(?:(?:failed|disconnected|overloaded|unimplemented): )?(.*)$`)
	failureID   = regexp.MustCompile(`wdErrId = (\w+)`)
)

// Reader finds what workerd says about the internal errors that a worker gets, in the output that is written to it.
type Reader struct {
	report func(id, text string)
	// rest is a line without its end so far; text is a failure whose reference is still to come.
	rest []byte
	text string
}

// NewReader returns a writer that calls report with the reference and the text of each failure.
func NewReader(report func(id, text string)) *Reader { return &Reader{report: report} }

// Write implements io.Writer; it never fails. A line of more than queue.OutputBytes is cut.
func (f *Reader) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		f.rest = append(f.rest, line[:min(len(line), queue.OutputBytes-len(f.rest))]...)
		if ended {
			f.line(string(f.rest))
			f.rest = f.rest[:0]
		}
		rest = after
	}
	return len(p), nil
}

func (f *Reader) line(line string) {
	if m := failureLine.FindStringSubmatch(line); m != nil {
		f.text, _, _ = strings.Cut(m[1], "; sentryErrorContext")
	}
	if f.text == "" {
		return
	}
	if m := failureID.FindStringSubmatch(line); m != nil {
		f.report(m[1], f.text)
		f.text = ""
	}
}

// Failure says in words for a person what workerd says of an internal error. Private tells whether the worker may reach
// private addresses.
func Failure(text string, private bool) string {
	switch {
	case strings.HasPrefix(text, "connecting to ") && strings.HasSuffix(text, " is not allowed"):
		if private {
			return text
		}
		return text + ": it is a private address (celld --allow-private lets Workers reach those)"
	case strings.HasPrefix(text, "failed to lookup address information"):
		return "the host name was not found (DNS" + strings.TrimPrefix(text, "failed to lookup address information") + ")"
	case strings.HasPrefix(text, "TLS "):
		return text
	default:
		return "internal error: " + text
	}
}
