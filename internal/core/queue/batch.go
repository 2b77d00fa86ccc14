package queue

// Batch is a set of messages of one queue under lease to one handler call.
type Batch struct {
	Queue    string
	Messages []Message
	// Metrics is the backlog behind the batch, as the handler sees it.
	Metrics Metrics
}
