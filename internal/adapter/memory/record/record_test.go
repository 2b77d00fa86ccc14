package record_test

import (
	"testing"

	"github.com/runlot/runlot/internal/adapter/memory/record"
	"github.com/runlot/runlot/internal/engine/ledger/ledgertest"
)

func TestContract(t *testing.T) {
	ledgertest.Run(t, func(*testing.T) ledgertest.Subject {
		s := &record.Store{}
		return ledgertest.Subject{Store: s, Declare: func(_ *testing.T, names ...string) { s.Declare(names...) }}
	})
}
