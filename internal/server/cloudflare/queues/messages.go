package queues

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/operate"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// pushed is a message that is sent.
type pushed struct {
	Body        json.RawMessage `json:"body"`
	ContentType string          `json:"content_type"`
	Delay       *float64        `json:"delay_seconds"`
}

// draft reads a message. A body of the type bytes is in base64, as it is in the answer to a pull.
func (m *pushed) draft() (queue.Draft, error) {
	var d queue.Draft
	var err error
	if d.Delay, err = seconds(queue.CodeMetadataInvalid, "delay_seconds", m.Delay, 0, queue.MaxDelay); err != nil {
		return d, err
	}
	if len(m.Body) == 0 {
		return d, fault.New(fault.Invalid, queue.CodeBodyInvalid, "there is no body")
	}
	if m.ContentType == "" || m.ContentType == queue.JSON.String() {
		var b bytes.Buffer
		if err := json.Compact(&b, m.Body); err != nil {
			return d, fault.New(fault.Invalid, queue.CodeBodyMalformed, "the body is no JSON").WithCause(err)
		}
		d.Format, d.Body = queue.JSON, b.Bytes()
		return d, nil
	}
	if m.ContentType != queue.Text.String() && m.ContentType != queue.Bytes.String() {
		return d, fault.New(fault.Invalid, queue.CodeMetadataInvalid, "unknown content_type %q", m.ContentType).WithHint("use json, text or bytes")
	}
	var content string
	if err := json.Unmarshal(m.Body, &content); err != nil {
		return d, fault.New(fault.Invalid, queue.CodeBodyInvalid, "a body of the content_type %s is a string", m.ContentType)
	}
	if m.ContentType == queue.Text.String() {
		d.Format, d.Body = queue.Text, []byte(content)
		return d, nil
	}
	if d.Body, err = base64.StdEncoding.DecodeString(content); err != nil {
		return d, fault.New(fault.Invalid, queue.CodeBodyInvalid, "a body of the content_type bytes is in base64")
	}
	d.Format = queue.Bytes
	return d, nil
}

// send stores messages, all or none, within the limits of Cloudflare.
func (s *service) send(w http.ResponseWriter, c *wire.Call, t *target, given []pushed, delay *time.Duration) error {
	drafts := make([]queue.Draft, len(given))
	for i := range given {
		d, err := given[i].draft()
		if err != nil {
			f := fault.From(err)
			return fault.New(f.Kind, f.Code, "message %d: %s", i, f.Error())
		}
		if d.Delay == nil {
			d.Delay = delay
		}
		drafts[i] = d
	}
	if err := queue.CheckBatch(queue.LimitsOf(queue.Wrangler), drafts); err != nil {
		return err
	}
	m, err := t.broker.Send(c.Context(), t.name, drafts)
	if err != nil {
		return err
	}
	wire.Answer(w, map[string]any{"metadata": map[string]any{"metrics": wireMetrics(&m)}})
	return nil
}

func (s *service) push(w http.ResponseWriter, c *wire.Call) error {
	t, err := s.target(c)
	if err != nil {
		return err
	}
	in, err := wire.Body[pushed](c)
	if err != nil {
		return err
	}
	return s.send(w, c, t, []pushed{*in}, nil)
}

func (s *service) pushBatch(w http.ResponseWriter, c *wire.Call) error {
	t, err := s.target(c)
	if err != nil {
		return err
	}
	in, err := wire.Body[struct {
		Messages []pushed `json:"messages"`
		Delay    *float64 `json:"delay_seconds"`
	}](c)
	if err != nil {
		return err
	}
	delay, err := seconds(queue.CodeDelayInvalid, "delay_seconds", in.Delay, 0, queue.MaxDelay)
	if err != nil {
		return err
	}
	return s.send(w, c, t, in.Messages, delay)
}

// encode shows a body as Cloudflare does: text as it is, everything else in base64.
func encode(f queue.Format, body []byte) string {
	if f == queue.Text && utf8.Valid(body) {
		return string(body)
	}
	return base64.StdEncoding.EncodeToString(body)
}

// metadata is what is told beside a body.
func metadata(f queue.Format) map[string]string {
	return map[string]string{"CF-Content-Type": f.String()}
}

// count reads how many messages a call asks for.
func count(given *float64, otherwise int) (int, error) {
	n, err := whole(queue.CodeBodyInvalid, "batch_size", "", given, 1, queue.MaxBatchSize, 1)
	if n == nil {
		return otherwise, err
	}
	return int(*n), nil
}

// peek shows messages that wait, delayed ones and those in flight too, and takes none.
func (s *service) peek(w http.ResponseWriter, c *wire.Call) error {
	t, err := s.target(c)
	if err != nil {
		return err
	}
	in, err := wire.Body[struct {
		BatchSize *float64 `json:"batch_size"`
	}](c)
	if err != nil {
		return err
	}
	n, err := count(in.BatchSize, queue.DefaultPull)
	if err != nil {
		return err
	}
	page, err := t.broker.Peek(c.Context(), t.name, operate.PeekOptions{Rows: n})
	if err != nil {
		return err
	}
	list := make([]map[string]any, len(page.Messages))
	for i := range page.Messages {
		m := &page.Messages[i]
		list[i] = map[string]any{
			"id": m.ID.String(), "body": encode(m.Format, m.Body), "attempts": m.Attempts, "timestamp_ms": m.SentAt.UnixMilli(),
			"metadata": metadata(m.Format), "ref": m.ID.String(),
		}
	}
	wire.Answer(w, map[string]any{"messages": list})
	return nil
}

// purgeMessages deletes messages that were peeked.
func (s *service) purgeMessages(w http.ResponseWriter, c *wire.Call) error {
	t, err := s.target(c)
	if err != nil {
		return err
	}
	in, err := wire.Body[struct {
		Refs []struct {
			Ref string `json:"ref"`
		} `json:"refs"`
	}](c)
	if err != nil {
		return err
	}
	problems, warnings := []map[string]string{}, map[string]string{}
	var ids []queue.ID
	for i := range in.Refs {
		one, err := queue.ParseID(in.Refs[i].Ref)
		if err != nil {
			problems = append(problems, map[string]string{"message": strconv.Quote(in.Refs[i].Ref) + " is no ref of a peeked message"})
			continue
		}
		ids = append(ids, one)
	}
	done, err := t.broker.Delete(c.Context(), t.name, ids, "")
	if err != nil {
		return err
	}
	for _, one := range done.InFlight {
		warnings[one.String()] = "the message is being delivered and was left alone"
	}
	for _, one := range done.Missing {
		warnings[one.String()] = "the queue no longer has the message"
	}
	if done.Done > 0 {
		s.changed(c, t, deploy.EventMessagesDeleted, map[string]string{"messages": strconv.Itoa(done.Done)})
	}
	wire.Answer(w, map[string]any{"errors": problems, "warnings": warnings})
	return nil
}
