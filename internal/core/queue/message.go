package queue

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/runlot/runlot/internal/core/trace"
)

// Format says how a body is serialized. The numbers are stored and never change.
type Format int16

// The four content types of the Cloudflare Queues API.
const (
	JSON  Format = 1
	Text  Format = 2
	Bytes Format = 3
	V8    Format = 4
)

// ParseFormat reads a content type as the Queues API writes it. The empty string is V8: producers with a compatibility
// date before 2024-03-18 send no format.
func ParseFormat(s string) (Format, bool) {
	switch s {
	case "json":
		return JSON, true
	case "text":
		return Text, true
	case "bytes":
		return Bytes, true
	case "v8", "":
		return V8, true
	}
	return 0, false
}

// String returns the content type as the Queues API writes it.
func (f Format) String() string {
	switch f {
	case JSON:
		return "json"
	case Text:
		return "text"
	case Bytes:
		return "bytes"
	case V8:
		return "v8"
	}
	return fmt.Sprintf("format(%d)", int16(f))
}

// ID identifies a message for its whole life, through retries and dead letters. The first eight bytes name
// the store that accepted it, the last eight its sequence number there.
type ID [16]byte

// NewID makes the ID of the message that the store with this identity accepted as number seq.
func NewID(store uint64, seq int64) ID {
	var id ID
	binary.BigEndian.PutUint64(id[:8], store)
	binary.BigEndian.PutUint64(id[8:], uint64(seq))
	return id
}

// ParseID reads the 32 hexadecimal digits of an ID.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != hex.EncodedLen(len(id)) {
		return id, fmt.Errorf("a message id has 32 hexadecimal digits, not %d characters", len(s))
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return id, fmt.Errorf("a message id has 32 hexadecimal digits: %w", err)
	}
	return id, nil
}

// String returns the 32 lower-case hexadecimal digits that handlers see as message.id.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Store returns the identity of the store that accepted the message.
func (id ID) Store() uint64 { return binary.BigEndian.Uint64(id[:8]) }

// Seq returns the sequence number under which the message was first accepted.
func (id ID) Seq() int64 { return int64(binary.BigEndian.Uint64(id[8:])) }

// Message is one message as a delivery carries it.
type Message struct {
	// Seq is the message's place in its queue: it rises in the order of acceptance and changes when the message moves
	// to another queue. ID does not change.
	Seq    int64
	ID     ID
	Format Format
	// Body is the serialized body as the producer sent it. It is shared: nobody may write to it.
	Body   []byte
	SentAt time.Time
	// Failures counts the deliveries that spent a retry. The handler sees Failures+1 as message.attempts.
	Failures int
	// Losses counts the deliveries in a row that ended as Lost; any other end sets it back to 0. A batch that could not
	// run (Errored) is no delivery and leaves it as it is, so that a poison message between two failed starts is found.
	Losses int
	// Trace is the span that sent it; nil for none.
	Trace *trace.Context
}

// Attempts is this delivery counted, starting at 1, as the handler sees it.
func (m *Message) Attempts() int { return m.Failures + 1 }

// Draft is a message that a producer hands in: not yet accepted, so without an ID.
type Draft struct {
	Format Format
	Body   []byte
	// Delay is the wait before the first delivery. Nil takes the binding's or the queue's default; 0 beats both.
	Delay *time.Duration
	// Trace is the span that sends it; nil for none.
	Trace *trace.Context
}

// Metrics is the backlog of a queue: what is not settled yet, delayed and in-flight messages included.
type Metrics struct {
	Count int64
	Bytes int64
	// Oldest is the send time of the oldest message that is visible or in flight; zero when there is none.
	Oldest time.Time
}
