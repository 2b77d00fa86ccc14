// Package envelope writes a batch as the router of a worker process reads it.
package envelope

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math"
	"strconv"

	"github.com/runlot/runlot/internal/core/queue"
)

// Attempts is the count of deliveries as the handler sees it; workerd counts to 65,535.
func Attempts(m *queue.Message) int { return min(m.Attempts(), math.MaxUint16) }

// The kinds of body in an envelope, as render/js/router.mjs reads them.
const (
	kindJSON  = "0"
	kindText  = "1"
	kindBytes = "2"
	kindV8    = "3"
)

// Encode writes a delivery for the router: {"queue","metrics","messages":[[id,milliseconds,attempts,kind,body],…]}. A
// JSON body goes in as it is; the store has it from a producer whose body was checked.
func Encode(batch *queue.Batch, messages []queue.Message) []byte {
	size := 256
	for i := range messages {
		size += 96 + len(messages[i].Body)*4/3
	}
	b := make([]byte, 0, size)
	b = append(b, `{"queue":`...)
	b = appendText(b, batch.Queue)
	b = append(b, `,"metrics":{"backlogCount":`...)
	b = strconv.AppendInt(b, batch.Metrics.Count, 10)
	b = append(b, `,"backlogBytes":`...)
	b = strconv.AppendInt(b, batch.Metrics.Bytes, 10)
	if !batch.Metrics.Oldest.IsZero() {
		b = append(b, `,"oldestMessageTimestamp":`...)
		b = strconv.AppendInt(b, batch.Metrics.Oldest.UnixMilli(), 10)
	}
	b = append(b, `},"messages":[`...)
	for i := range messages {
		m := &messages[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `["`...)
		b = hex.AppendEncode(b, m.ID[:])
		b = append(b, `",`...)
		b = strconv.AppendInt(b, m.SentAt.UnixMilli(), 10)
		b = append(b, ',')
		b = strconv.AppendInt(b, int64(Attempts(m)), 10)
		b = append(b, ',')
		switch m.Format {
		case queue.JSON:
			b = append(b, kindJSON+","...)
			b = append(b, m.Body...)
		case queue.Text:
			b = append(b, kindText+","...)
			b = appendText(b, string(m.Body))
		case queue.Bytes:
			b = appendBase64(append(b, kindBytes+",\""...), m.Body)
		case queue.V8:
			b = appendBase64(append(b, kindV8+",\""...), m.Body)
		}
		b = append(b, ']')
	}
	return append(b, "]}"...)
}

// appendText writes a JSON string; what is not UTF-8 becomes U+FFFD, as in every JavaScript decoder.
func appendText(b []byte, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic("workerd: a string always marshals: " + err.Error())
	}
	return append(b, quoted...)
}

func appendBase64(b, body []byte) []byte {
	b = base64.StdEncoding.AppendEncode(b, body)
	return append(b, '"')
}
