package settings

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/client"
)

func TestWhoSaidSo(t *testing.T) {
	at := time.Date(2026, 11, 30, 7, 0, 0, 0, time.UTC)
	const live = "the live version of crawler"
	worker := client.QueueConsumer{App: "crawler", BatchSize: 1, BatchTimeoutSeconds: 1.5, MaxRetries: 3, MaxConcurrency: 20, DeadLetterQueue: "jobs-dead"}
	for name, c := range map[string]struct {
		q    client.Queue
		want []Setting
	}{
		"a worker": {client.Queue{Name: "jobs", Database: "main", RetentionSeconds: 4 * 86400, Consumer: &worker}, []Setting{
			{Name: "Consumer", Value: "the handler queue() of crawler", App: "crawler", By: live},
			{Name: "Batch size", Value: "up to 1 message", By: live},
			{Name: "Batch timeout", Value: "1.5 seconds", By: live},
			{Name: "Concurrency", Value: "up to 20 handler calls", By: live},
			{Name: "Retries", Value: "up to 3", By: live},
			{Name: "Dead-letter queue", Value: "jobs-dead", Queue: "jobs-dead", By: live},
			{Name: "Messages are kept", Value: "4 days", By: live},
		}},
		"what an operator changed": {client.Queue{Name: "my jobs", Database: "main", RetentionSeconds: 5400, RetentionSet: true, PausedSince: &at}, []Setting{
			{Name: "Delivery", Value: "paused since 2026-11-30 07:00 UTC", By: operator, Operator: true, Undo: "runlot queue resume 'my jobs' --database main"},
			{Name: "Consumer", Value: "none: messages wait until an app declares one", By: "no app"},
			{Name: "Messages are kept", Value: "90 minutes", By: operator, Operator: true, Undo: "runlot queue retention 'my jobs' default --database main"},
		}},
		"a consumer over HTTP that an operator gave": {client.Queue{Name: "jobs", Database: "main", RetentionSeconds: 60, Consumer: &client.QueueConsumer{Pull: true, BatchSize: 10}}, []Setting{
			{Name: "Consumer", Value: "over HTTP (http_pull), with a token", By: operator, Operator: true},
			{Name: "Batch size", Value: "up to 10 messages", By: operator, Operator: true},
			{Name: "Retries", Value: "up to 0", By: operator, Operator: true},
			{Name: "Dead-letter queue", Value: "none: what fails too often is deleted", By: operator, Operator: true},
			{Name: "Messages are kept", Value: "1 minute", By: "the usual"},
		}},
	} {
		if d := cmp.Diff(c.want, Of(&c.q)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}
