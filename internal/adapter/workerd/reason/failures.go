package reason

import (
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// A worker is told of a connection that failed only "internal error; reference = …"; the reason is on the stderr of
// workerd, under the same reference. What is here brings the two together.

// reference is what JavaScript sees of a failure.
var reference = regexp.MustCompile(`internal error; reference = (\w+)`)

const (
	// mostFailures is how many failures are remembered for a log that mentions them.
	mostFailures = 1024
	// referenceWait is how long a log waits for the reason of a failure, which is written before it and read beside it. It
	// leaves time for the delivery that waits for the log.
	referenceWait = queue.ExceptionWait / 4
	// repeatAfter is how long the same reason is not said again by itself.
	repeatAfter = 10 * time.Second
)

// Cause is what is known of one reference.
type Cause struct {
	// known is closed when text is set.
	known chan struct{}
	text  string
	// told is set when a log has named the reason; guarded by Failures.mu.
	told bool
}

// Failures are the last failures of a process, by their references. Its methods may be called from several goroutines.
type Failures struct {
	mu          sync.Mutex
	byReference map[string]*Cause
	// order holds the references of byReference, oldest first, as a ring.
	order [mostFailures]string
	next  int
	// said is when a reason was last said by itself.
	said map[string]time.Time
}

// NewFailures returns an empty memory of failures.
func NewFailures() *Failures {
	return &Failures{byReference: map[string]*Cause{}, said: map[string]time.Time{}}
}

// find returns the failure of a reference, whoever comes first with it.
func (f *Failures) find(id string) *Cause {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byReference[id] == nil {
		delete(f.byReference, f.order[f.next])
		f.byReference[id] = &Cause{known: make(chan struct{})}
		f.order[f.next] = id
		f.next = (f.next + 1) % mostFailures
	}
	return f.byReference[id]
}

// Explain puts the reasons in the place of the references in a text.
func (f *Failures) Explain(text string) string {
	if !strings.Contains(text, "internal error; reference = ") {
		return text
	}
	patience := time.NewTimer(referenceWait)
	defer patience.Stop()
	waited := false
	return reference.ReplaceAllStringFunc(text, func(mention string) string {
		one := f.find(reference.FindStringSubmatch(mention)[1])
		if !waited {
			select {
			case <-one.known:
			case <-patience.C:
				waited = true
			}
		}
		select {
		case <-one.known:
			f.mu.Lock()
			defer f.mu.Unlock()
			one.told = true
			return one.text
		default:
			return mention
		}
	})
}

// Learn notes the reason of a failure, in words for a person, and reports whether it is new and worth a line: the same
// reason is, every ten seconds.
func (f *Failures) Learn(id, why string, now time.Time) (*Cause, bool) {
	one := f.find(id)
	select {
	case <-one.known:
		return one, false
	default:
		one.text = why
		close(one.known)
	}
	return one, f.due(why, now)
}

// Silent reports whether no text that was explained has named the failure.
func (f *Failures) Silent(one *Cause) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !one.told
}

// due reports whether a reason is to be said, and notes that it is.
func (f *Failures) due(why string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if last, ok := f.said[why]; ok && now.Sub(last) < repeatAfter {
		return false
	}
	if len(f.said) >= mostFailures {
		clear(f.said)
	}
	f.said[why] = now
	return true
}
