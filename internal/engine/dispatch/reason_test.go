package dispatch

import (
	"testing"

	"github.com/runlot/runlot/internal/core/queue"
)

// TestDeadLettersKnowWhy: what is dead-lettered or comes again gets the reason, and each way to end has one.
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
		decisions := []queue.Decision{{Verdict: queue.Retry}, {Verdict: queue.DeadLetter}, {Verdict: queue.Drop}, {Verdict: queue.Ack}}
		c.record.Outcome = queue.Failed
		c.record.explain(decisions)
		if decisions[0].Reason != c.want || decisions[0].Outcome != queue.Failed || decisions[1].Reason != c.want || decisions[2].Reason+decisions[3].Reason != "" {
			t.Errorf("%+v gives %+v, want the reason %q for the retry and the dead letter", c.record, decisions, c.want)
		}
	}
}

func TestABodyIsBlamed(t *testing.T) {
	messages := []queue.Message{{ID: queue.NewID(1, 1)}, {ID: queue.NewID(1, 2)}, {ID: queue.NewID(1, 3)}}
	decisions := []queue.Decision{{Verdict: queue.Retry}, {Verdict: queue.Retry}, {Verdict: queue.Drop}}
	(&Record{Outcome: queue.OK}).explain(decisions)
	blameBodies(messages, decisions, []queue.ID{messages[1].ID, messages[2].ID})
	want := queue.Decision{Verdict: queue.Retry, Outcome: queue.Failed, Reason: "its body could not be decoded"}
	if decisions[0].Outcome != queue.OK || decisions[1] != want || decisions[2].Reason != "" {
		t.Errorf("%+v, want %+v for the second alone", decisions, want)
	}
}
