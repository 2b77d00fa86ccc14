package cli

import (
	"log/slog"
	"os"
	"strings"

	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/daemon"
)

// newLog is the parts' own log: text on a terminal, JSON elsewhere; only problems unless more is asked for.
func newLog(stderr *os.File, verbose bool) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelError}
	if verbose {
		options.Level = slog.LevelInfo
	}
	if terminal.New(stderr).Interactive {
		return slog.New(slog.NewTextHandler(stderr, options))
	}
	return slog.New(slog.NewJSONHandler(stderr, options))
}

// readURLs takes "URL" for any database and "NAME=URL" for one.
func readURLs(o *daemon.Options, values []string) error {
	o.DatabaseURLs = map[string]string{}
	for _, v := range values {
		name, url := "", v
		if before, after, ok := strings.Cut(v, "="); ok && !strings.Contains(before, ":") {
			name, url = before, after
		}
		if !strings.HasPrefix(url, "postgres://") && !strings.HasPrefix(url, "postgresql://") {
			// What was given instead may hold a password wherever it likes.
			return fault.New(fault.Invalid, "database_url_invalid", "the value of --database-url does not begin with postgres://").
				WithHint("for example postgres://user:password@localhost:5432/mine")
		}
		if _, twice := o.DatabaseURLs[name]; twice {
			return fault.New(fault.Invalid, "database_url_invalid", "--database-url is given twice for the same database").
				WithHint("NAME=URL gives each database its own")
		}
		o.DatabaseURLs[name] = url
	}
	return nil
}

// databaseURLs is readURLs for settings that are not those of a development run.
func databaseURLs(values []string) (map[string]string, error) {
	var o daemon.Options
	err := readURLs(&o, values)
	return o.DatabaseURLs, err
}
