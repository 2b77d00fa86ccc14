package ledger

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Outcomes of records that stand for no handler call.
const (
	// Expired: messages outlived their retention and were deleted; Record.Expired counts them.
	Expired queue.Outcome = "expired"
	// Gap: Record.Missed records were not kept. The other counts of the record are their sums.
	Gap queue.Outcome = "gap"
)

// Outcomes are all that a record can have.
var Outcomes = []queue.Outcome{queue.OK, queue.Failed, queue.TimedOut, queue.Lost, queue.Errored, Expired, Gap}

// numberBits is the number of low bits of an ID's number that tell records of one millisecond apart.
const numberBits = 20

// ID names a record. Its text form is "queue.number", with the number in 16 hexadecimal digits.
type ID struct {
	Queue string
	// Number rises within a queue: milliseconds since 1970 times 2^20, plus bits that tell records of one millisecond
	// apart, whichever node made them.
	Number int64
}

// String returns the text form.
func (id ID) String() string { return fmt.Sprintf("%s.%016x", id.Queue, id.Number) }

// Time is when the record was made, to the millisecond.
func (id ID) Time() time.Time { return time.UnixMilli(id.Number >> numberBits) }

// numberAt is the lowest number of the millisecond of t.
func numberAt(t time.Time) int64 { return t.UnixMilli() << numberBits }

// ParseID reads the text form. Fault: Invalid (record_id).
func ParseID(text string) (ID, error) {
	name, digits, ok := strings.Cut(text, ".")
	number, err := strconv.ParseInt(digits, 16, 64)
	if !ok || len(digits) != 16 || err != nil || number <= 0 || !queue.ValidName(name) {
		return ID{}, fault.New(fault.Invalid, "record_id", "%q is not the id of a batch", text).
			WithHint("an id is a queue's name, a full stop and 16 hexadecimal digits")
	}
	return ID{Queue: name, Number: number}, nil
}

// Cursor is the opaque form in which a page names its end: a list with it goes on behind the record.
func (id ID) Cursor() string { return base64.RawURLEncoding.EncodeToString([]byte(id.String())) }

func parseCursor(text string) (ID, error) {
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		var id ID
		if id, err = ParseID(string(decoded)); err == nil {
			return id, nil
		}
	}
	return ID{}, fault.New(fault.Invalid, "record_cursor", "the cursor of the list of batches is not valid").
		WithHint("use the one that came with the page before, unchanged").WithCause(err)
}

// Record is how one batch ended, or what else happened to messages of a queue.
type Record struct {
	ID ID
	// App, Version and Delivery are empty in records that stand for no handler call.
	App, Version, Delivery string
	// Start is in whole microseconds. Duration is the time of the handler call; for other records, the time in which
	// happened what they tell of.
	Start    time.Time
	Duration time.Duration
	Outcome  queue.Outcome
	// Delivered is the size of the batch; Acked to Dropped are what became of it.
	Delivered, Acked, Retried, Redelivered, Dead, Dropped int
	Expired                                               int
	Missed                                                int
	// Error is what the handler threw; Reason is why it did not run or end, a sentence for a person.
	Error    *Exception
	Reason   string
	Warnings []string
	// Fates are the messages that were not simply acked, and Acks those that were. The IDs of Acks are all of one database.
	// Acks are there as far as there is room for them: a record may have less than Acked, or none.
	Fates []Fate
	Acks  []queue.Acked
	// Lines are what the handler logged. A ledger adds them itself.
	Lines []Line
}

// Exception is an error of the user's code. Location is file:line:column of the first frame in it, "" when unknown; Stack
// has the frames, one a line.
type Exception struct {
	Name, Message, Location, Stack string
}

// FateKind is what became of a message.
type FateKind string

// The fates, as the counts of a record have them.
const (
	// Acked: done. A record has such messages in Acks, not in Fates.
	Acked FateKind = "acked"
	// Retried: delivered again, one retry spent.
	Retried FateKind = "retried"
	// Redelivered: delivered again, no retry spent.
	Redelivered FateKind = "redelivered"
	// Dead: moved to the dead-letter queue.
	Dead FateKind = "dead"
	// Dropped: deleted, out of retries without a dead-letter queue.
	Dropped FateKind = "dropped"
)

// Fate is what became of one message that was not simply acked.
type Fate struct {
	ID   queue.ID
	Kind FateKind
	// Attempt is the delivery counted, from 1.
	Attempt int
	// Delay is the wait before the next delivery, in whole milliseconds.
	Delay time.Duration
}

// trim brings a record into its bounds and into what a database can hold.
func (r *Record) trim() {
	r.Start = time.UnixMicro(r.Start.UnixMicro())
	r.Duration = r.Duration.Truncate(time.Microsecond)
	r.App, r.Version, r.Delivery = clip(r.App, queue.RecordText), clip(r.Version, queue.RecordText), clip(r.Delivery, queue.RecordText)
	r.Reason = clip(r.Reason, queue.RecordText)
	if r.Error != nil {
		r.Error = &Exception{
			Name: clip(cmp.Or(r.Error.Name, "Error"), queue.RecordText), Message: clip(r.Error.Message, queue.RecordText),
			Location: clip(r.Error.Location, queue.RecordText), Stack: clip(r.Error.Stack, queue.RecordStack),
		}
	}
	if more := len(r.Warnings) - queue.RecordWarnings; more > 0 {
		r.Warnings = append(r.Warnings[:queue.RecordWarnings:queue.RecordWarnings], fmt.Sprintf("and %d more", more))
	}
	for i, w := range r.Warnings {
		r.Warnings[i] = clip(strings.ReplaceAll(w, "\n", " "), queue.RecordText)
	}
	r.Fates = r.Fates[:min(len(r.Fates), queue.MaxBatchSize)]
	for i := range r.Fates {
		r.Fates[i].Delay = r.Fates[i].Delay.Truncate(time.Millisecond)
	}
	r.Acks = r.Acks[:min(len(r.Acks), queue.MaxBatchSize)]
}

// clip cuts a text to a number of bytes, at a character, and replaces what PostgreSQL refuses in one.
func clip(text string, most int) string {
	const cut = "…"
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) <= most {
		return text
	}
	end := most - len(cut)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + cut
}

// recordOverhead, fateBytes and ackBytes are what a record, a fate and an ack take in memory, beside texts.
const (
	recordOverhead = 400
	fateBytes      = 64
	ackBytes       = 24
)

// size is about what the record takes in memory, in bytes.
func (r *Record) size() int {
	n := recordOverhead + len(r.ID.Queue) + len(r.App) + len(r.Version) + len(r.Delivery) + len(r.Reason) + fateBytes*len(r.Fates) + ackBytes*len(r.Acks)
	if r.Error != nil {
		n += len(r.Error.Name) + len(r.Error.Message) + len(r.Error.Location) + len(r.Error.Stack)
	}
	for _, w := range r.Warnings {
		n += len(w)
	}
	return n
}

// end is when what the record tells of was over.
func (r *Record) end() time.Time { return r.Start.Add(r.Duration) }

// add makes a gap tell of one more record that is not kept. An app and a version stay while all have the same.
func (r *Record) add(missed *Record) {
	if r.Missed == 0 {
		r.Start, r.Duration, r.App, r.Version = missed.Start, missed.Duration, missed.App, missed.Version
	}
	end := r.end()
	if missed.end().After(end) {
		end = missed.end()
	}
	if missed.Start.Before(r.Start) {
		r.Start = missed.Start
	}
	r.Duration = end.Sub(r.Start)
	if r.App != missed.App {
		r.App = ""
	}
	if r.Version != missed.Version {
		r.Version = ""
	}
	r.Missed += max(1, missed.Missed)
	r.Delivered += missed.Delivered
	r.Acked += missed.Acked
	r.Retried += missed.Retried
	r.Redelivered += missed.Redelivered
	r.Dead += missed.Dead
	r.Dropped += missed.Dropped
	r.Expired += missed.Expired
}
