package wire

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/operate"
	"github.com/runlot/runlot/internal/engine/broker/settings"
)

// TestConsumerOverHTTP: what a version declares comes before what an operator set.
func TestConsumerOverHTTP(t *testing.T) {
	set := &operate.Overview{Name: "jobs", Pull: &settings.Pull{BatchSize: 7, MaxRetries: 2, DeadLetterQueue: "dead"}}
	want := &client.QueueConsumer{Pull: true, BatchSize: 7, MaxRetries: 2, DeadLetterQueue: "dead"}
	if diff := cmp.Diff(want, Queue("db", set, nil).Consumer); diff != "" {
		t.Errorf("an operator's (-want +got):\n%s", diff)
	}
	declared := []*app.Manifest{{Name: "shop", Database: "db", Consumers: []queue.Consumer{{Queue: "jobs", Pull: true, BatchSize: 5}}}}
	if diff := cmp.Diff(&client.QueueConsumer{App: "shop", Pull: true, BatchSize: 5}, Queue("db", set, declared).Consumer); diff != "" {
		t.Errorf("a version's (-want +got):\n%s", diff)
	}
}
