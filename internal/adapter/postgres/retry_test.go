package postgres_test

import (
	"testing"

	"github.com/runlot/runlot/internal/engine/broker/storetest/retrytest"
)

func TestRetryContract(t *testing.T) { retrytest.Run(t, newDatabase(t).open(t)) }
