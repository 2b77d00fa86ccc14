package series_test

import (
	"testing"

	"github.com/runlot/runlot/internal/adapter/memory/series"
	"github.com/runlot/runlot/internal/engine/series/seriestest"
)

func TestContract(t *testing.T) {
	seriestest.Run(t, func(*testing.T) seriestest.Subject {
		s := &series.Store{}
		return seriestest.Subject{Store: s, Declare: func(_ *testing.T, names ...string) { s.Declare(names...) }}
	})
}
