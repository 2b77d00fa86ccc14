package dispatch

import (
	"slices"

	"github.com/runlot/runlot/internal/core/queue"
)

// explain tells the messages that come again or go to a dead-letter queue why.
func (r *Record) explain(decisions []queue.Decision) {
	reason := ""
	for i := range decisions {
		if v := decisions[i].Verdict; v != queue.DeadLetter && v != queue.Retry {
			continue
		}
		if reason == "" {
			reason = r.why()
		}
		decisions[i].Reason, decisions[i].Outcome = reason, r.Outcome
	}
}

// blameBodies tells messages that the handler could not see why they come again or are dead.
func blameBodies(messages []queue.Message, decisions []queue.Decision, undecodable []queue.ID) {
	for i := range decisions {
		if decisions[i].Outcome != "" && slices.Contains(undecodable, messages[i].ID) {
			decisions[i].Reason, decisions[i].Outcome = "its body could not be decoded", queue.Failed
		}
	}
}

// why says in a line how the batch ended.
func (r *Record) why() string {
	switch {
	case r.Error != nil && r.Error.Location != "":
		return r.Error.Name + ": " + r.Error.Message + " (" + r.Error.Location + ")"
	case r.Error != nil:
		return r.Error.Name + ": " + r.Error.Message
	case r.Reason != "":
		return r.Reason
	default:
		return "the handler asked for a retry"
	}
}
