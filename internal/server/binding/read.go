package binding

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// readMessage reads the body of POST /message: the bytes of one message. It also returns what the sender says of itself.
func (h *handler) readMessage(w http.ResponseWriter, r *http.Request, p *app.Producer) (drafts []queue.Draft, said string, err error) {
	format, ok := queue.ParseFormat(r.Header.Get("X-Msg-Fmt"))
	if !ok {
		return nil, "", unknownFormat(r.Header.Get("X-Msg-Fmt"))
	}
	delay, err := callDelay(r, queue.CodeMetadataInvalid)
	if err != nil {
		return nil, "", err
	}
	room := h.trace.room()
	if r.ContentLength > int64(h.limits.MessageBytes+room) {
		return nil, "", fault.New(fault.Limit, queue.CodeMessageSize, "message length of %d bytes exceeds limit of %d", r.ContentLength, h.limits.MessageBytes)
	}
	// The body is kept by the broker: it gets memory of its own, exactly as much as it needs.
	body, err := readAll(w, r, make([]byte, 0, max(r.ContentLength, 0)), h.limits.MessageBytes+room+1)
	if err != nil {
		return nil, "", err
	}
	if delay == nil {
		delay = p.DeliveryDelay
	}
	d := queue.Draft{Format: format, Body: body, Delay: delay}
	said = h.trace.open(&d)
	if f := queue.CheckDraft(h.limits, &d); f != nil {
		return nil, "", f
	}
	if f := checkText(&d); f != nil {
		return nil, "", f
	}
	return []queue.Draft{d}, said, nil
}

// frames are the buffers into which the bodies of POST /batch are read.
var frames = sync.Pool{New: func() any { b := make([]byte, 0, 32<<10); return &b }}

// readBatch reads the body of POST /batch: JSON with the messages in base64. It also returns what the sender says of itself.
func (h *handler) readBatch(w http.ResponseWriter, r *http.Request, p *app.Producer) (drafts []queue.Draft, said string, err error) {
	delay, err := callDelay(r, queue.CodeDelayInvalid)
	if err != nil {
		return nil, "", err
	}
	if r.ContentLength > queue.MaxBindingBody {
		return nil, "", h.tooLarge(r)
	}
	buffer, ok := frames.Get().(*[]byte)
	if !ok {
		panic("binding: the pool holds buffers")
	}
	defer frames.Put(buffer)
	frame := (*buffer)[:0]
	if size := int(r.ContentLength); size > cap(frame) {
		frame = make([]byte, 0, size)
	}
	frame, err = readAll(w, r, frame, queue.MaxBindingBody+1)
	if cap(frame) <= 2*queue.MaxBindingBody {
		*buffer = frame
	}
	if err != nil {
		return nil, "", err
	}
	if len(frame) > queue.MaxBindingBody {
		return nil, "", h.tooLarge(r)
	}
	if drafts, err = decodeBatch(frame); err != nil {
		return nil, "", err
	}
	if delay == nil {
		delay = p.DeliveryDelay
	}
	for i := range drafts {
		if text := h.trace.open(&drafts[i]); text != "" {
			said = text
		}
		if drafts[i].Delay == nil {
			drafts[i].Delay = delay
		}
	}
	if f := queue.CheckBatch(h.limits, drafts); f != nil {
		return nil, "", f
	}
	for i := range drafts {
		if f := checkText(&drafts[i]); f != nil {
			return nil, "", fault.New(f.Kind, f.Code, "message %d: %s", i, f.Message)
		}
	}
	return drafts, said, nil
}

// tooLarge says which limit a batch breaks whose body is not even read, by what workerd says about it.
func (h *handler) tooLarge(r *http.Request) *fault.Error {
	if count, err := strconv.Atoi(r.Header.Get("Cf-Queue-Batch-Count")); err == nil && count > queue.MaxSendBatch {
		return fault.New(fault.Limit, queue.CodeBatchCount, "batch message count of %d exceeds limit of %d", count, queue.MaxSendBatch)
	}
	if largest, err := strconv.Atoi(r.Header.Get("Cf-Queue-Largest-Msg")); err == nil && largest > h.limits.MessageBytes {
		return fault.New(fault.Limit, queue.CodeMessageSize, "message length of %d bytes exceeds limit of %d", largest, h.limits.MessageBytes)
	}
	if size, err := strconv.Atoi(r.Header.Get("Cf-Queue-Batch-Bytes")); err == nil && size > h.limits.BatchBytes {
		return fault.New(fault.Limit, queue.CodeBatchSize, "batch size of %d bytes exceeds limit of %d bytes", size, h.limits.BatchBytes)
	}
	return fault.New(fault.Limit, queue.CodeBatchSize, "batch request exceeds limit of %d bytes", queue.MaxBindingBody)
}

// readAll appends the request's body to b, up to limit bytes of b, within queue.SendTimeout.
func readAll(w http.ResponseWriter, r *http.Request, b []byte, limit int) ([]byte, error) {
	if err := readDeadline(w, time.Now().Add(queue.SendTimeout)); err != nil {
		return b, err
	}
	for {
		if len(b) == cap(b) {
			if int64(len(b)) == r.ContentLength || len(b) >= limit {
				break
			}
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Body.Read(b[len(b):min(cap(b), max(limit, len(b)))])
		b = b[:len(b)+n]
		if errors.Is(err, io.EOF) || len(b) >= limit {
			break
		}
		if err != nil {
			return b, fault.New(fault.Invalid, queue.CodeBodyMalformed, "the request ended early").WithCause(err)
		}
	}
	return b, readDeadline(w, time.Time{})
}

// callDelay reads the delay of a whole call, nil when it names none.
func callDelay(r *http.Request, code string) (*time.Duration, error) {
	text := r.Header.Get("X-Msg-Delay-Secs")
	if text == "" {
		return nil, nil //nolint:nilnil // no delay is no error
	}
	seconds, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return nil, fault.New(fault.Invalid, code, "delay of %.40q seconds is not a whole number", text)
	}
	delay := time.Duration(seconds) * time.Second
	if _, clamped := queue.ClampDelay(delay); clamped {
		return nil, fault.New(fault.Invalid, code, "delay of %d seconds is outside 0 to %d", seconds, int64(queue.MaxDelay/time.Second))
	}
	return &delay, nil
}

func unknownFormat(name string) *fault.Error {
	return fault.New(fault.Invalid, queue.CodeMetadataInvalid, "unknown content type %.40q; known are json, text, bytes and v8", name)
}

// checkText makes sure that a body is what its content type says, as far as others will read it: JSON text and UTF-8.
func checkText(d *queue.Draft) *fault.Error {
	switch d.Format {
	case queue.JSON:
		if bytes.Equal(d.Body, []byte("undefined")) {
			return fault.New(fault.Invalid, queue.CodeBodyInvalid,
				`the body is undefined: content type "json" cannot carry a function, a symbol or undefined`)
		}
		if !utf8.Valid(d.Body) || !isCompactJSON(d.Body) && !json.Valid(d.Body) {
			return fault.New(fault.Invalid, queue.CodeBodyInvalid, `the body is not JSON, which content type "json" wants`)
		}
	case queue.Text:
		if !utf8.Valid(d.Body) {
			return fault.New(fault.Invalid, queue.CodeBodyInvalid, `the body is not UTF-8, which content type "text" wants`)
		}
	case queue.Bytes, queue.V8:
	}
	return nil
}

// seconds turns a number of JSON into a delay. A number that is no whole 32-bit number is refused.
func seconds(n float64) (time.Duration, bool) {
	if n != math.Trunc(n) || math.Abs(n) > math.MaxInt32 {
		return 0, false
	}
	return time.Duration(n) * time.Second, true
}
