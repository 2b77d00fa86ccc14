package dashboard

import (
	"context"
	"time"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/server/dashboard/charts"
)

// spans are the times that charts show, the first one unless the parameter asks for another.
var spans = []struct {
	name, title string
	time        time.Duration
}{
	{"15m", "15 min", 15 * time.Minute}, {"1h", "1 h", time.Hour}, {"6h", "6 h", 6 * time.Hour}, {"24h", "24 h", 24 * time.Hour}, {"7d", "7 d", 7 * 24 * time.Hour},
}

// spanParameter names the time in the address.
const spanParameter = "time"

// link is a choice of several.
type link struct {
	Title, Path string
	Chosen      bool
}

// overTime draws how a queue did over time.
func overTime(ctx context.Context, v *visit, q *client.Queue) (fragment, error) {
	chosen := spans[0]
	links := make([]link, len(spans))
	for _, s := range spans {
		if s.name == v.q.Get(spanParameter) {
			chosen = s
		}
	}
	for i, s := range spans {
		name := s.name
		if i == 0 {
			name = ""
		}
		links[i] = link{Title: s.title, Path: v.here(spanParameter, name), Chosen: s.name == chosen.name}
	}
	series, err := v.api.Series(ctx, q.Database, q.Name, client.SeriesRange{From: time.Now().Add(-chosen.time)})
	if err != nil {
		return fragment{}, err
	}
	return fragment{ID: "charts", Template: "charts", Data: map[string]any{"Charts": charts.Of(series), "Spans": links, "Empty": len(series.Points) == 0, "Time": chosen.title}}, nil
}
