package workerd

import (
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/adapter/workerd/reason"
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

// failure is one reference.
type failure struct {
	// known is closed when reason is set.
	known  chan struct{}
	reason string
	// told is set when a log has named the reason; guarded by failures.mu.
	told bool
}

// failures are the last mostFailures references of a process.
type failures struct {
	mu          sync.Mutex
	byReference map[string]*failure
	// order holds the references of byReference, oldest first, as a ring.
	order [mostFailures]string
	next  int
	// said is when a reason was last said by itself.
	said map[string]time.Time
}

func newFailures() *failures {
	return &failures{byReference: map[string]*failure{}, said: map[string]time.Time{}}
}

// find returns the failure of a reference, whoever comes first with it.
func (f *failures) find(id string) *failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byReference[id] == nil {
		delete(f.byReference, f.order[f.next])
		f.byReference[id] = &failure{known: make(chan struct{})}
		f.order[f.next] = id
		f.next = (f.next + 1) % mostFailures
	}
	return f.byReference[id]
}

// explain puts the reasons in the place of the references in a text.
func (f *failures) explain(text string) string {
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
			return one.reason
		default:
			return mention
		}
	})
}

// silent reports whether no log has named the failure.
func (f *failures) silent(one *failure) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !one.told
}

// due reports whether a reason is to be said, and notes that it is.
func (f *failures) due(why string, now time.Time) bool {
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

// reported takes one failure from stderr. When the logs do not mention it soon, since the worker caught it, it becomes a
// line of its own.
func (p *Process) reported(id, text string) {
	why := reason.Failure(text, p.spec.AllowPrivate)
	one := p.failures.find(id)
	select {
	case <-one.known:
		return
	default:
		one.reason = why
		close(one.known)
	}
	if p.spec.Log == nil || !p.failures.due(why, time.Now()) {
		return
	}
	p.tasks.Go(func() {
		patience := time.NewTimer(queue.ExceptionWait)
		defer patience.Stop()
		select {
		case <-patience.C:
		case <-p.alive.Done():
		}
		if p.failures.silent(one) {
			p.spec.Log(Line{Time: time.Now(), Level: "warn", Text: why})
		}
	})
}
