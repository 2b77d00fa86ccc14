package subscribe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/runlot/runlot/internal/core/queue"
)

// message is an event as a queue gets it: Cloudflare's shape. The type comes first, see Mark.
type message struct {
	Type     string            `json:"type"`
	Source   map[string]string `json:"source"`
	Payload  json.RawMessage   `json:"payload"`
	Metadata metadata          `json:"metadata"`
}

type metadata struct {
	Account      string `json:"accountId"`
	Subscription string `json:"eventSubscriptionId"`
	Version      int    `json:"eventSchemaVersion"`
	At           string `json:"eventTimestamp"`
}

// schemaVersion is that of every message.
const schemaVersion = 1

// Mark begins the body of every message about dead letters, and of no other message of this package: a message that begins so
// and becomes a dead letter itself leaves no note.
const Mark = `{"type":"cf.` + Letters + "." + DeadLettered + `",`

// draft writes an event as a message.
func (e *Engine) draft(s *Subscription, event *Event) (queue.Draft, error) {
	source := map[string]string{"type": s.Source.Type}
	switch s.Source.Type {
	case Builds:
		source["workerName"] = s.Source.Script
	case Scripts:
		if s.Source.Script != "" {
			source["scriptName"] = s.Source.Script
		}
	case Letters:
		source["queueId"], source["queueName"] = e.o.QueueID(s.Source.Queue), s.Source.Queue.Queue
	}
	body, err := plain(message{
		Type: "cf." + s.Source.Type + "." + event.Kind, Source: source, Payload: event.Payload,
		Metadata: metadata{Account: e.o.Account, Subscription: s.ID, Version: schemaVersion, At: stamp(event.At)},
	})
	if err != nil {
		return queue.Draft{}, fmt.Errorf("event %d: %w", event.Seq, err)
	}
	return queue.Draft{Format: queue.JSON, Body: body}, nil
}

func stamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

// letters is the payload of an event about dead letters.
type letters struct {
	Database string   `json:"database"`
	Target   target   `json:"deadLetterQueue"`
	Messages []letter `json:"messages"`
}

type target struct {
	ID   string `json:"queueId"`
	Name string `json:"queueName"`
}

type letter struct {
	ID       string `json:"id"`
	SentAt   string `json:"sentAt"`
	DiedAt   string `json:"deadLetteredAt"`
	Attempts int    `json:"attempts"`
	Reason   string `json:"reason,omitempty"`
}

// payload tells of dead letters of one queue that went to one other.
func (e *Engine) payload(database string, deaths []Death) (json.RawMessage, error) {
	to := Place{database, deaths[0].Target}
	p := letters{Database: database, Target: target{e.o.QueueID(to), to.Queue}, Messages: make([]letter, len(deaths))}
	for i := range deaths {
		d := &deaths[i]
		p.Messages[i] = letter{ID: d.Message.String(), SentAt: stamp(d.Sent), DiedAt: stamp(d.Died), Attempts: d.Attempts, Reason: short(d.Reason)}
	}
	return plain(p)
}

// plain writes a value as JSON in which < and > stand as they are: they would take six bytes each.
func plain(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// short is a reason without control characters, cut between two characters.
func short(reason string) string {
	reason = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, reason)
	if len(reason) <= queue.EventReasonBytes {
		return reason
	}
	n := queue.EventReasonBytes
	for !utf8.RuneStart(reason[n]) {
		n--
	}
	return reason[:n] + "…"
}
