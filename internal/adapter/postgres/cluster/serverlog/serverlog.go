// Package serverlog reads what a PostgreSQL server writes to its standard error: it gives each line a level, passes it on
// to a log, and keeps the last ones, which explain a death.
package serverlog

import (
	"bytes"
	"context"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Prefix is the log_line_prefix that a server has to be given: the kind of process and its id before each line. The log's
// reader adds the time itself.
const Prefix = "%b [%p] "

const (
	// tailLines is how many of the last lines are kept to explain a death; lineBytes bounds one line.
	tailLines = 12
	lineBytes = 4 << 10
)

var prefixed = regexp.MustCompile(`^([a-z ]+) \[(\d+)\] ([A-Z0-9]+): +(.*)$`)

// Writer takes the standard error of initdb and of the server, passes each line on to the log, and remembers the
// last ones.
type Writer struct {
	log  *slog.Logger
	line func(text string)

	mu      sync.Mutex
	partial []byte
	level   slog.Level
	last    []string
}

// New returns a writer whose lines without a level of their own are details. Line, when it is not nil, sees each line.
func New(log *slog.Logger, line func(text string)) *Writer {
	return &Writer{log: log, line: line, level: slog.LevelDebug}
}

// Write implements io.Writer. It never fails: a log that cannot be kept must not stop the server.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		text, rest, whole := bytes.Cut(p, []byte("\n"))
		if room := lineBytes - len(w.partial); room > 0 {
			w.partial = append(w.partial, text[:min(room, len(text))]...)
		}
		p = rest
		if whole {
			w.emit(string(w.partial))
			w.partial = w.partial[:0]
		}
	}
	return n, nil
}

func (w *Writer) emit(text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	if len(w.last) == tailLines {
		w.last = append(w.last[:0], w.last[1:]...)
	}
	process, message := "", text
	if match := prefixed.FindStringSubmatch(text); match != nil {
		process, message = match[1], match[3]+": "+match[4]
		// Lines such as DETAIL and HINT belong to the one before, and so does a line without a prefix.
		switch match[3] {
		case "WARNING":
			w.level = slog.LevelWarn
		case "ERROR", "FATAL", "PANIC":
			w.level = slog.LevelError
			// A session's errors are its client's business: it gets them as answers.
			if process == "client backend" && match[3] != "PANIC" {
				w.level = slog.LevelDebug
			}
		case "LOG":
			w.level = slog.LevelDebug
		}
	}
	w.last = append(w.last, message)
	w.log.Log(context.Background(), w.level, "postgresql", "process", process, "text", message)
	if w.line != nil {
		w.line(message)
	}
}

// Tail returns the last lines as the end of a message, indented below it.
func (w *Writer) Tail() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := w.last
	if len(w.partial) > 0 {
		lines = append(slices.Clip(lines), string(w.partial))
	}
	if len(lines) == 0 {
		return "it said nothing"
	}
	return "it said last:\n  " + strings.Join(lines, "\n  ")
}
