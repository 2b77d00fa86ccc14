// Package untold holds what a worker wrote to its console and the tail has not told yet: the tail hands the logs of an
// invocation over at its end, and never when the process is killed in the middle of it, while the console is written at
// once.
package untold

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/runlot/runlot/internal/core/queue"
)

// Lines are the last lines of one output, at most queue.OutputBytes of them. It implements io.Writer.
type Lines struct {
	mu      sync.Mutex
	partial []byte
	list    []string
	size    int
	// ahead are texts that were told before they came here.
	ahead [][]string
}

// Write takes output; it never fails.
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(p)
	for {
		line, rest, whole := bytes.Cut(p, []byte("\n"))
		l.partial = append(l.partial, line...)
		if over := len(l.partial) - queue.OutputBytes; over > 0 {
			l.partial = l.partial[over:]
		}
		if !whole {
			l.catchUp()
			return n, nil
		}
		l.list = append(l.list, string(l.partial))
		l.size += len(l.partial)
		l.partial, p = l.partial[:0], rest
		drop := 0
		for l.size > queue.OutputBytes {
			l.size -= len(l.list[drop])
			drop++
		}
		l.list = l.list[drop:]
	}
}

// Told forgets a text that the tail has told of: the oldest lines that are the same, or the next ones that come, since
// the two ways of a line race.
func (l *Lines) Told(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := strings.Split(text, "\n")
	if l.forget(lines) {
		return
	}
	if len(l.ahead) == mostAhead {
		l.ahead = l.ahead[1:]
	}
	l.ahead = append(l.ahead, lines)
}

// mostAhead bounds the texts that were told and have not been written yet.
const mostAhead = 100

// catchUp forgets what was told before it was written.
func (l *Lines) catchUp() {
	l.ahead = slices.DeleteFunc(l.ahead, l.forget)
}

// forget drops the oldest lines that are the same, and reports whether there were any.
func (l *Lines) forget(lines []string) bool {
	for at := 0; at+len(lines) <= len(l.list); at++ {
		if equal(l.list[at:], lines) {
			for _, line := range lines {
				l.size -= len(line)
			}
			l.list = slices.Delete(l.list, at, at+len(lines))
			return true
		}
	}
	return false
}

func equal(list, lines []string) bool {
	for i := range lines {
		if list[i] != lines[i] {
			return false
		}
	}
	return true
}

// ownLine is what workerd itself says between the lines of a worker, lastWords begin what it says when it dies.
var (
	ownLine   = regexp.MustCompile(`^(\S+\.(c\+\+|h):\d+: |stack: |$)`)
	lastWords = regexp.MustCompile(`^(\*\*\* |<--- |# |\S+\.(c\+\+|h):\d+: fatal: )`)
)

// Rest returns what was not told of, without what workerd says of itself, and forgets it.
func (l *Lines) Rest() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var rest []string
	for _, line := range append(l.list, string(l.partial)) {
		if lastWords.MatchString(line) {
			break
		}
		if !ownLine.MatchString(line) {
			rest = append(rest, line)
		}
	}
	l.list, l.partial, l.size, l.ahead = nil, nil, 0, nil
	return rest
}
