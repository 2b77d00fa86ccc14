package dispatch

import (
	"testing"

	"github.com/runlot/runlot/internal/core/queue"
)

// TestDeadLettersKnowWhy: only a message that is dead-lettered gets the reason, and each way to end has one.
func TestDeadLettersKnowWhy(t *testing.T) {
	for _, c := range []struct {
		record Record
		want   string
	}{
		{Record{Error: &Exception{Name: "TypeError", Message: "x is undefined", Location: "src/index.ts:3:9"}}, "TypeError: x is undefined (src/index.ts:3:9)"},
		{Record{Error: &Exception{Name: "Error", Message: "no"}, Reason: "other"}, "Error: no"},
		{Record{Reason: "the handler did not finish within 30s and was cancelled"}, "the handler did not finish within 30s and was cancelled"},
		{Record{}, "the handler asked for a retry"},
	} {
		decisions := []queue.Decision{{Verdict: queue.Retry}, {Verdict: queue.DeadLetter}, {Verdict: queue.Drop}}
		c.record.explain(decisions)
		if decisions[0].Reason != "" || decisions[1].Reason != c.want || decisions[2].Reason != "" {
			t.Errorf("%+v gives %+v, want the reason %q for the dead letter alone", c.record, decisions, c.want)
		}
	}
}
