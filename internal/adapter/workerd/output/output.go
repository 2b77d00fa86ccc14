// Package output keeps what a program writes, within bounds, and has it read as it comes.
package output

import (
	"sync"

	"github.com/runlot/runlot/internal/adapter/workerd/reason"
	"github.com/runlot/runlot/internal/adapter/workerd/untold"
)

// Output keeps the last bytes that a process wrote, at most limit of them and as many again while it grows.
type Output struct {
	limit int
	mu    sync.Mutex
	text  []byte
	// closed drops everything from now on.
	closed bool
	// failures reads on, and so does untold, when it is set.
	failures *reason.Reader
	untold   *untold.Lines
}

// New keeps at most limit bytes, and as many again while they grow.
func New(limit int) *Output { return &Output{limit: limit} }

// Write implements io.Writer; it never fails.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.untold != nil {
		_, _ = o.untold.Write(p) // it never fails
	}
	if o.closed {
		return len(p), nil
	}
	if o.failures != nil {
		_, _ = o.failures.Write(p) // it never fails
	}
	o.text = append(o.text, p[max(0, len(p)-o.limit):]...)
	if len(o.text) > 2*o.limit {
		o.text = append(o.text[:0], o.text[len(o.text)-o.limit:]...)
	}
	return len(p), nil
}

// Take returns what is kept and forgets it.
func (o *Output) Take() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := string(o.text[max(0, len(o.text)-o.limit):])
	o.text = nil
	return text
}

// Follow calls report for each failure that workerd writes about from now on, with its reference and its text, one after
// the other. It must not block.
func (o *Output) Follow(report func(id, text string)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failures = reason.NewReader(report)
}

// Keep gives lines what comes from now on, too.
func (o *Output) Keep(lines *untold.Lines) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.untold = lines
}

// Close makes the output drop what comes.
func (o *Output) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed, o.text = true, nil
}
