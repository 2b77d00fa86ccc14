package outbox_test

import (
	"testing"

	"github.com/runlot/runlot/internal/adapter/memory/outbox"
	"github.com/runlot/runlot/internal/engine/notify"
	"github.com/runlot/runlot/internal/engine/notify/outboxtest"
)

func TestContract(t *testing.T) {
	outboxtest.Run(t, func(*testing.T) func() notify.Outbox {
		o := &outbox.Outbox{}
		return func() notify.Outbox { return o }
	})
}
