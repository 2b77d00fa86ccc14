package control_test

import (
	"testing"

	"github.com/runlot/runlot/internal/engine/operations"
	"github.com/runlot/runlot/internal/engine/operations/storetest"
)

func TestOperations(t *testing.T) {
	storetest.Run(t, func(t *testing.T) operations.Store {
		s, _ := open(t)
		return s
	})
}
