package operations_test

import (
	"testing"

	memory "github.com/runlot/runlot/internal/adapter/memory/operations"
	"github.com/runlot/runlot/internal/engine/operations"
	"github.com/runlot/runlot/internal/engine/operations/storetest"
)

func TestContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) operations.Store { return &memory.Store{} })
}
