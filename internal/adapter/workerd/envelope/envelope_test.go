package envelope

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/runlot/runlot/internal/core/queue"
)

func TestEncodeIsJSON(t *testing.T) {
	batch := &queue.Batch{Queue: "a\"b", Metrics: queue.Metrics{Count: 2, Bytes: 9, Oldest: time.UnixMilli(7)}}
	for i, body := range []string{`{"a":[1]}`, "te\"xt\xff", "\x00\xff", "\xff\x0f"} {
		batch.Messages = append(batch.Messages, queue.Message{
			ID: queue.NewID(1, int64(i)), SentAt: time.UnixMilli(int64(i)), Body: []byte(body), Failures: i * 70_000,
			Format: []queue.Format{queue.JSON, queue.Text, queue.Bytes, queue.V8}[i],
		})
	}
	var got any
	if err := json.Unmarshal(Encode(batch, batch.Messages), &got); err != nil {
		t.Fatal(err)
	}
	id := func(seq int64) string { return queue.NewID(1, seq).String() }
	want := map[string]any{
		"queue": "a\"b", "metrics": map[string]any{"backlogCount": 2.0, "backlogBytes": 9.0, "oldestMessageTimestamp": 7.0},
		"messages": []any{
			[]any{id(0), 0.0, 1.0, 0.0, map[string]any{"a": []any{1.0}}},
			[]any{id(1), 1.0, 65535.0, 1.0, "te\"xt\ufffd"},
			[]any{id(2), 2.0, 65535.0, 2.0, "AP8="},
			[]any{id(3), 3.0, 65535.0, 3.0, "/w8="},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestEncodedBodiesComeBack reads envelopes back with encoding/json.
func TestEncodedBodiesComeBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		messages := make([]queue.Message, rapid.IntRange(1, 5).Draw(rt, "messages"))
		for i := range messages {
			format := rapid.SampledFrom([]queue.Format{queue.JSON, queue.Text, queue.Bytes, queue.V8}).Draw(rt, "format")
			var body []byte
			switch format {
			case queue.JSON:
				body, _ = json.Marshal(rapid.String().Draw(rt, "json"))
			case queue.Text:
				body = []byte(rapid.String().Draw(rt, "text"))
			default:
				body = rapid.SliceOf(rapid.Byte()).Draw(rt, "bytes")
			}
			messages[i] = queue.Message{ID: queue.NewID(7, int64(i)), Format: format, Body: body}
		}
		var got struct {
			Queue    string              `json:"queue"`
			Messages [][]json.RawMessage `json:"messages"`
		}
		if err := json.Unmarshal(Encode(&queue.Batch{Queue: "jobs", Messages: messages}, messages), &got); err != nil {
			rt.Fatal(err)
		}
		for i, m := range messages {
			row := got.Messages[i]
			if len(row) != 5 || string(row[0]) != `"`+m.ID.String()+`"` || string(row[3]) != fmt.Sprint(int(m.Format)-1) {
				rt.Fatalf("row %s", row)
			}
			var back []byte
			var err error
			switch m.Format {
			case queue.JSON:
				back = row[4]
			case queue.Text:
				var text string
				err = json.Unmarshal(row[4], &text)
				back = []byte(text)
			default:
				err = json.Unmarshal(row[4], &back)
			}
			if err != nil || string(back) != string(m.Body) {
				rt.Fatalf("body %q came back as %q: %v", m.Body, back, err)
			}
		}
	})
}
