package dispatch

import "github.com/runlot/runlot/internal/core/queue"

// explain tells the messages that go to a dead-letter queue why.
func (r *Record) explain(decisions []queue.Decision) {
	reason := ""
	for i := range decisions {
		if decisions[i].Verdict != queue.DeadLetter {
			continue
		}
		if reason == "" {
			reason = r.why()
		}
		decisions[i].Reason = reason
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
