// Package wire turns what the engines know of versions, queues, messages and batches into what goes over the wire, and
// drafts back.
package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/client/delivery"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/operate"
	"github.com/runlot/runlot/internal/engine/ledger"
)

// Queue describes a queue of a database with what the apps that run declare about it. Dead letters and the last batch are
// the caller's to add.
func Queue(database string, o *operate.Overview, apps []*app.Manifest) client.Queue {
	q := client.Queue{
		Database: database, Name: o.Name, Unsettled: o.Unsettled, Bytes: o.Bytes, Visible: o.Visible, Delayed: o.Delayed, InFlight: o.InFlight,
		Oldest: moment(o.Oldest), PausedSince: moment(o.PausedAt), RetentionSeconds: int64(o.Retention / time.Second), RetentionSet: o.Overridden,
		Producers: []client.QueueProducer{}, DeadLettersOf: []string{},
	}
	for _, m := range apps {
		if m.Database != database {
			continue
		}
		for i := range m.Producers {
			if m.Producers[i].Queue == o.Name {
				q.Producers = append(q.Producers, client.QueueProducer{App: m.Name, Binding: m.Producers[i].Binding})
			}
		}
		for i := range m.Consumers {
			c := &m.Consumers[i]
			if c.Queue == o.Name {
				q.Consumer = &client.QueueConsumer{
					App: m.Name, Pull: c.Pull, BatchSize: c.BatchSize, BatchTimeoutSeconds: c.BatchTimeout.Seconds(), MaxRetries: c.MaxRetries,
					MaxConcurrency: c.MaxConcurrency, DeadLetterQueue: c.DeadLetterQueue,
				}
			}
			if c.DeadLetterQueue == o.Name && !slices.Contains(q.DeadLettersOf, c.Queue) {
				q.DeadLettersOf = append(q.DeadLettersOf, c.Queue)
			}
		}
	}
	if q.Consumer == nil && o.Pull != nil {
		q.Consumer = &client.QueueConsumer{Pull: true, BatchSize: o.Pull.BatchSize, MaxRetries: o.Pull.MaxRetries, DeadLetterQueue: o.Pull.DeadLetterQueue}
	}
	return q
}

// moment is a time, or nil for none.
func moment(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	at = at.UTC()
	return &at
}

// Message describes a message.
func Message(m *operate.Message) client.Message {
	out := client.Message{
		ID: m.ID.String(), State: string(m.State), Attempts: m.Attempts, Losses: m.Losses, Sent: m.SentAt.UTC(), Visible: m.VisibleAt.UTC(),
		Format: m.Format.String(), Size: m.Size, Source: m.Source, Reason: m.Reason,
	}
	out.Leased, out.Wait = moment(m.LeasedAt), wait(m)
	if h := m.Holder; h != nil {
		out.Lease = &delivery.Lease{App: h.App, Version: h.Version, Delivery: h.Delivery, Messages: m.Batch, Until: h.Until.UTC()}
	}
	out.Encoding, out.Body = encode(m.Format, whole(m))
	return out
}

// whole is a body without the character that was cut at its end, where only its beginning was read.
func whole(m *operate.Message) []byte {
	b := m.Body
	if len(b) == m.Size || m.Format != queue.JSON && m.Format != queue.Text {
		return b
	}
	for cut := len(b); cut > 0 && cut > len(b)-utf8.UTFMax; cut-- {
		if utf8.RuneStart(b[cut-1]) {
			if !utf8.FullRune(b[cut-1:]) {
				return b[:cut-1]
			}
			break
		}
	}
	return b
}

// encode shows a body in the way that reads best: what was sent as JSON or as text as it is, unless it is none.
func encode(f queue.Format, b []byte) (encoding string, body json.RawMessage) {
	switch {
	case f == queue.JSON && json.Valid(b):
		return "json", b
	case (f == queue.JSON || f == queue.Text) && utf8.Valid(b):
		return "text", quoted(string(b))
	default:
		return "base64", quoted(base64.StdEncoding.EncodeToString(b))
	}
}

func quoted(text string) json.RawMessage {
	b, err := json.Marshal(text)
	if err != nil {
		panic("wire: a string always marshals: " + err.Error())
	}
	return b
}

// Drafts reads messages to send, and checks them against the limits of a producer.
func Drafts(given []client.Draft, limits queue.Limits) ([]queue.Draft, error) {
	drafts := make([]queue.Draft, len(given))
	for i := range given {
		d, err := draft(&given[i])
		if err != nil {
			return nil, fault.New(fault.Invalid, err.Code, "message %d: %s", i, err.Message)
		}
		drafts[i] = d
	}
	if err := queue.CheckBatch(limits, drafts); err != nil {
		return nil, err
	}
	return drafts, nil
}

func draft(given *client.Draft) (queue.Draft, *fault.Error) {
	var d queue.Draft
	// What would not fit into a duration is as far outside as the largest that does.
	const most = float64(1<<62) / float64(time.Second)
	delay := time.Duration(min(max(given.DelaySeconds, -most), most) * float64(time.Second))
	d.Delay = &delay
	if given.ContentType == "" || given.ContentType == queue.JSON.String() {
		var b bytes.Buffer
		if len(given.Body) == 0 || json.Compact(&b, given.Body) != nil {
			return d, fault.New(fault.Invalid, queue.CodeBodyMalformed, "the body is no JSON")
		}
		d.Format, d.Body = queue.JSON, b.Bytes()
		return d, nil
	}
	var text string
	if err := json.Unmarshal(given.Body, &text); err != nil {
		return d, fault.New(fault.Invalid, queue.CodeBodyMalformed, "a body of the content type %s is given as a string", given.ContentType)
	}
	switch given.ContentType {
	case queue.Text.String():
		d.Format, d.Body = queue.Text, []byte(text)
	case queue.Bytes.String():
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return d, fault.New(fault.Invalid, queue.CodeBodyMalformed, "a body of the content type bytes is given in base64")
		}
		d.Format, d.Body = queue.Bytes, b
	default:
		return d, fault.New(fault.Invalid, queue.CodeBodyInvalid, "there is no content type %q", given.ContentType)
	}
	return d, nil
}

// IDs reads ids of messages. Fault: Invalid (message_id).
func IDs(given []string) ([]queue.ID, error) {
	ids := make([]queue.ID, len(given))
	for i := range given {
		var err error
		if ids[i], err = queue.ParseID(given[i]); err != nil {
			return nil, fault.New(fault.Invalid, "message_id", "%q is not the id of a message", given[i]).
				WithHint("an id has 32 hexadecimal digits").WithCause(err)
		}
	}
	return ids, nil
}

// Texts are the text forms of ids.
func Texts(ids []queue.ID) []string {
	list := make([]string, len(ids))
	for i := range ids {
		list[i] = ids[i].String()
	}
	return list
}

// Batch describes a record of a database.
func Batch(database string, r *ledger.Record) client.Batch {
	b := client.Batch{
		ID: r.ID.String(), Database: database, Queue: r.ID.Queue, App: r.App, Version: r.Version, Delivery: r.Delivery, Start: r.Start.UTC(),
		Milliseconds: float64(r.Duration) / float64(time.Millisecond), Outcome: string(r.Outcome), Delivered: r.Delivered, Acked: r.Acked,
		Retried: r.Retried, Redelivered: r.Redelivered, Dead: r.Dead, Dropped: r.Dropped, Expired: r.Expired, Missed: r.Missed,
		Reason: r.Reason, Warnings: r.Warnings,
	}
	if r.Error != nil {
		e := client.Exception(*r.Error)
		b.Error = &e
	}
	for i := range r.Fates {
		f := &r.Fates[i]
		b.Fates = append(b.Fates, client.Fate{ID: f.ID.String(), Kind: string(f.Kind), Attempt: f.Attempt, DelaySeconds: f.Delay.Seconds()})
	}
	for _, a := range r.Acks {
		b.Acks = append(b.Acks, client.Fate{ID: a.ID.String(), Kind: string(ledger.Acked), Attempt: a.Attempt})
	}
	for i := range r.Lines {
		b.Lines = append(b.Lines, client.LogLine{Time: r.Lines[i].Time.UTC(), Level: r.Lines[i].Level, Text: r.Lines[i].Text})
	}
	return b
}
