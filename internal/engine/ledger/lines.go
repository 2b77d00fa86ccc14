package ledger

import (
	"container/list"
	"fmt"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// Line is one line that a handler logged. Level is "debug", "info", "warn" or "error"; "" for the line that tells how many
// more there were.
type Line struct {
	// Time is in whole milliseconds.
	Time  time.Time
	Level string
	Text  string
}

// lines holds what handlers logged until the records of their batches are written, in bounded memory: past it the oldest
// go. The caller holds the ledger's lock.
type lines struct {
	// most bounds the bytes.
	most       int
	bytes      int
	byDelivery map[string]*list.Element
	// order has a *logged for each delivery, the oldest first.
	order *list.List
}

// logged is what one handler call logged.
type logged struct {
	delivery string
	lines    []Line
	// bytes are those of the texts; more counts the lines that did not fit.
	bytes, more int
}

// lineOverhead is what a line, or a delivery, takes in memory beside its texts.
const lineOverhead = 100

func newLines(most int) lines {
	return lines{most: most, byDelivery: map[string]*list.Element{}, order: list.New()}
}

// add keeps a line, if it fits into what is kept of one delivery.
func (l *lines) add(delivery string, line Line) {
	element := l.byDelivery[delivery]
	if element == nil {
		element = l.order.PushBack(&logged{delivery: delivery})
		l.byDelivery[delivery] = element
		l.bytes += lineOverhead + len(delivery)
	}
	d := element.Value.(*logged) //nolint:errcheck // the list holds nothing else
	line.Text, line.Level = clip(line.Text, queue.RecordText), clip(line.Level, queue.RecordText)
	line.Time = time.UnixMilli(line.Time.UnixMilli())
	if len(d.lines) >= queue.RecordLines || d.bytes+len(line.Text) > queue.RecordLogBytes {
		d.more++
		return
	}
	d.lines = append(d.lines, line)
	d.bytes += len(line.Text)
	l.bytes += lineOverhead + len(line.Text)
	for l.bytes > l.most {
		l.remove(l.order.Front())
	}
}

// take takes out what a delivery logged.
func (l *lines) take(delivery string) []Line {
	element := l.byDelivery[delivery]
	if element == nil {
		return nil
	}
	d := l.remove(element)
	if d.more > 0 {
		return append(d.lines, Line{Time: d.lines[len(d.lines)-1].Time, Text: fmt.Sprintf("and %d more", d.more)})
	}
	return d.lines
}

func (l *lines) remove(element *list.Element) *logged {
	d := l.order.Remove(element).(*logged) //nolint:errcheck // the list holds nothing else
	delete(l.byDelivery, d.delivery)
	l.bytes -= d.bytes + lineOverhead*(1+len(d.lines)) + len(d.delivery)
	return d
}
