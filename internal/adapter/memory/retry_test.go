package memory_test

import (
	"testing"

	"github.com/runlot/runlot/internal/adapter/memory"
	"github.com/runlot/runlot/internal/engine/broker/storetest/retrytest"
)

func TestRetryContract(t *testing.T) { retrytest.Run(t, memory.NewDatabase().Open()) }
