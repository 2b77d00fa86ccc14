package queues

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/span"
)

// byConsumer is the word that takes an operator's retention back.
const byConsumer = "default"

func retention() *cobra.Command {
	var f choice
	var asJSON bool
	c := &cobra.Command{
		Use:   "retention NAME [TIME|default]",
		Short: "Show or set how long a queue keeps its messages",
		Long: `retention shows how long messages of a queue stay when nobody settles them, or
sets it to TIME, from 60s to 14d. It counts at once, also for messages that wait
already: those that are older are deleted. default takes it back, and the
consumer's own counts again.`,
		Example: "  runlot queue retention jobs\n  runlot queue retention jobs 7d\n  runlot queue retention jobs default",
		Args:    command.Args(1, 2, "name of a queue"),
		RunE: func(c *cobra.Command, given []string) error {
			var set time.Duration
			if len(given) > 1 {
				var err error
				if set, err = parseRetention(given[1]); err != nil {
					return err
				}
			}
			api, q, err := f.open(c.Context(), given[0])
			if err != nil {
				return err
			}
			if len(given) > 1 {
				if err := api.SetRetention(c.Context(), q.Database, q.Name, set); err != nil {
					return err
				}
				if q, err = api.Queue(c.Context(), q.Database, q.Name); err != nil {
					return err
				}
			}
			if asJSON {
				return command.JSON(c, map[string]any{"database": q.Database, "queue": q.Name, "retentionSeconds": q.RetentionSeconds, "retentionSet": q.RetentionSet})
			}
			by := "its consumer or the default says so"
			if q.RetentionSet {
				by = "an operator set it"
			}
			_, err = fmt.Fprintf(command.Stdout(c), "%s keeps messages for %s: %s\n", q.Name, span.Text(time.Duration(q.RetentionSeconds)*time.Second), by)
			return err
		},
	}
	f.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

// parseRetention reads a time in Go's units or in days; 0 is the consumer's own.
func parseRetention(text string) (time.Duration, error) {
	if text == byConsumer {
		return 0, nil
	}
	const day = 24 * time.Hour
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n float64
		n, err = strconv.ParseFloat(days, 64)
		d = time.Duration(n * float64(day))
	}
	if err != nil || d < queue.MinRetention || d > queue.MaxRetention {
		return 0, command.Usage("a retention is a time from 60s to 14d, like 12h or 7d, or the word default, not %s", command.Quoted(text))
	}
	return d.Truncate(time.Second), nil
}
