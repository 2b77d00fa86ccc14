package rules

import (
	"strings"

	"github.com/runlot/runlot/internal/config/source"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/cron"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Crons reads the times at which the scheduled handler runs. main is where the entry module is named, and root where it
// belongs. An app without a database of its own has the default one, which remembers what ran.
func Crons(v, main, root source.Value, m *app.Manifest) {
	items := v.Items()
	if len(items) > 0 && !main.Exists() {
		v.RefuseKeyf("add "+root.Line("main", `"src/index.js"`), "crons need `main`, the entry module that has a `scheduled` handler")
	}
	if len(items) > queue.MaxCrons {
		v.RefuseKeyf("a scheduled handler can look at the time itself", "an app has at most %d crons, found %d", queue.MaxCrons, len(items))
		return
	}
	seen := map[string]bool{}
	for _, item := range items {
		text, ok := item.Text()
		if !ok {
			continue
		}
		s, err := cron.Parse(text)
		if err != nil {
			f := fault.From(err)
			item.Refusef(f.Hint, "%s", f.Message)
			continue
		}
		same := strings.ToUpper(s.String())
		if seen[same] {
			item.Refusef("keep one of them", "the cron %s stands twice", source.Quote(s.String()))
			continue
		}
		seen[same] = true
		m.Crons = append(m.Crons, s.String())
	}
	if len(m.Crons) > 0 && m.Database == "" {
		m.Database = app.DefaultDatabase
	}
}
