package charts_test

import (
	"testing"
	"time"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/server/dashboard/charts"
)

// TestRates: what failed is told, and the newest point, of which only a part is known, is no slump.
func TestRates(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	list := charts.Of(&client.Series{StepSeconds: 60, Known: at.Add(70 * time.Second), Points: []client.SeriesPoint{
		{Time: at, Sent: 500, Arrived: 100, Left: 1_200, Retried: 60, Dead: 40, Dropped: 20},
		{Time: at.Add(time.Minute), Sent: 90, Arrived: 10, Left: 200, Retried: 10, Dead: 7, Dropped: 3},
	}})
	for i := range list {
		if list[i].ID != "chart-rates" {
			continue
		}
		if want := `{"lines":[[10,10],[20,20],[2,2]],"times":[1796040000,1796040060],"unit":""}`; list[i].Data != want {
			t.Errorf("%s, want %s", list[i].Data, want)
		}
		if want := "Messages a second. in: now 10, at most 10; out: now 20, at most 20; failed: now 2, at most 2."; list[i].Words != want {
			t.Errorf("%q, want %q", list[i].Words, want)
		}
		return
	}
	t.Error("there are no rates")
}
