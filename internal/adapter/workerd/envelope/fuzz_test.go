package envelope

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// FuzzEncode reads an envelope back as the router does: every message is there, with its own body.
func FuzzEncode(f *testing.F) {
	f.Add("jobs", []byte(`{"a":[1]}`), []byte("te\"xt\xff\u2028"), int64(7), 0)
	f.Add("a\"\n\\", []byte("null"), []byte(nil), int64(-1), 70_000)
	f.Fuzz(func(t *testing.T, name string, body, other []byte, at int64, failures int) {
		if failures < 0 || at < -1<<50 || at > 1<<50 || !json.Valid(body) {
			return
		}
		batch := &queue.Batch{Queue: name, Metrics: queue.Metrics{Count: at, Bytes: at, Oldest: time.UnixMilli(at)}}
		formats := []queue.Format{queue.JSON, queue.Text, queue.Bytes, queue.V8}
		for i, format := range formats {
			m := queue.Message{ID: queue.NewID(uint64(at), at), SentAt: time.UnixMilli(at), Format: format, Body: other, Failures: failures}
			if i == 0 {
				m.Body = body
			}
			batch.Messages = append(batch.Messages, m)
		}
		var got struct {
			Queue    string
			Messages [][]json.RawMessage
		}
		text := Encode(batch, batch.Messages)
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if want := strings.ToValidUTF8(name, "\ufffd"); len([]rune(got.Queue)) != len([]rune(name)) || strings.ToValidUTF8(name, "") == name && got.Queue != want {
			t.Errorf("queue %q came as %q", name, got.Queue)
		}
		if len(got.Messages) != len(formats) {
			t.Fatalf("%d messages of %d", len(got.Messages), len(formats))
		}
		for i, m := range got.Messages {
			if len(m) != 5 {
				t.Fatalf("message %d has %d fields", i, len(m))
			}
			var attempts int
			if err := json.Unmarshal(m[2], &attempts); err != nil || attempts < 1 || attempts > 65_535 {
				t.Errorf("message %d has %s attempts", i, m[2])
			}
			compare(t, &batch.Messages[i], m[4])
		}
	})
}

// compare wants a body of an envelope to be that of the message.
func compare(t *testing.T, m *queue.Message, raw json.RawMessage) {
	t.Helper()
	if m.Format == queue.JSON {
		// What stands around the value belongs to nobody.
		if strings.TrimSpace(string(raw)) != strings.Trim(string(m.Body), " \t\r\n") {
			t.Errorf("JSON %q came as %q", m.Body, raw)
		}
		return
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		t.Fatal(err)
	}
	want := base64.StdEncoding.EncodeToString(m.Body)
	if m.Format == queue.Text {
		want = string([]rune(string(m.Body)))
	}
	if text != want {
		t.Errorf("%s %q came as %q", m.Format, m.Body, text)
	}
}
