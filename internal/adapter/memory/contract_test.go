package memory_test

import (
	"testing"
	"time"

	"github.com/runlot/runlot/internal/adapter/memory"
	"github.com/runlot/runlot/internal/engine/broker/store"
	"github.com/runlot/runlot/internal/engine/broker/storetest"
	"github.com/runlot/runlot/internal/engine/broker/storetest/lookup"
	"github.com/runlot/runlot/internal/engine/broker/storetest/removaltest"
	"github.com/runlot/runlot/internal/engine/broker/storetest/undotest"
)

func TestLookupContract(t *testing.T) {
	lookup.Run(t, func(*testing.T) store.Store { return memory.NewDatabase().Open() })
}

func TestContract(t *testing.T) {
	open := func(*testing.T) storetest.Subject {
		db := memory.NewDatabase()
		return storetest.Subject{
			Store:   db.Open(),
			Another: func(*testing.T) store.Store { return db.Open() },
			Enqueue: func(t *testing.T, queueName, body string, delay time.Duration) {
				t.Helper()
				if err := db.Enqueue(queueName, body, delay); err != nil {
					t.Fatal(err)
				}
			},
			TryEnqueue: func(_ *testing.T, queueName, body string) string {
				if err := db.Enqueue(queueName, body, 0); err != nil {
					return err.Error()
				}
				return ""
			},
			Sever: func(*testing.T) { db.Crash(nil) },
		}
	}
	storetest.Run(t, open)
	removaltest.Run(t, open)
	undotest.Run(t, open)
}
