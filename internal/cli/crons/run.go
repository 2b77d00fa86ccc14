package crons

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/crons"
)

// by says how a run is asked for.
type by struct {
	choice

	host, at string
	port     int
	// address says that the person said where a project listens.
	address bool
}

func runCommand(port int) *cobra.Command {
	var p by
	var asJSON bool
	c := &cobra.Command{
		Use:   "run [CRON|APP]",
		Short: "Run the scheduled handler of an app now",
		Long: `run calls the scheduled handler of an app now and waits for the end. CRON is an
expression, or the number of one in "runlot cron"; an app with one cron needs
none. The app is the project of this folder under runlot dev, or else the one of
that name on the celld of the last login. A run that fails is not tried again.
While another run of the app is under way, it is refused. Exit code 1 means that
the run did not end well.`,
		Example: `  runlot cron run
  runlot cron run my-app --server http://127.0.0.1:8788
  runlot cron run 2 --dir ./my-app --port 3000
  runlot cron run '0 9 * * MON-FRI' --time 2026-12-01T09:00:00Z`,
		Args: command.Args(0, 1, "cron"),
		RunE: func(c *cobra.Command, given []string) error {
			p.address = c.Flags().Changed("port") || c.Flags().Changed("host")
			run, err := p.run(c, given)
			if err != nil {
				return err
			}
			if asJSON {
				if err := command.JSON(c, run); err != nil {
					return err
				}
			}
			return ended(c, run, asJSON)
		},
	}
	p.flags(c)
	f := c.Flags()
	p.dirFlag(c)
	f.IntVarP(&p.port, "port", "p", port, "port `N` that a project under runlot dev listens\non")
	f.StringVar(&p.host, "host", "127.0.0.1", "`ADDRESS` that it listens on")
	f.StringVar(&p.at, "time", "", "`TIME` that the handler is told (default now)")
	f.BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

func (p *by) run(c *cobra.Command, given []string) (*client.Run, error) {
	var at *time.Time
	if p.at != "" {
		when, err := time.Parse(time.RFC3339, p.at)
		if err != nil {
			return nil, command.Usage("--time takes a time like 2026-12-01T09:00:00Z, not %q", p.at)
		}
		at = &when
	}
	// An expression has spaces, and a number is one in the list.
	if len(given) > 0 && p.app == "" && !strings.ContainsAny(given[0], " \t") {
		if _, err := strconv.Atoi(given[0]); err != nil {
			p.app, given = given[0], nil
		}
	}
	if p.address {
		if p.named() {
			return nil, command.Usage("%s takes --port and --host for a project, or --app and --server", c.CommandPath())
		}
		return p.fire(c, given, at)
	}
	api, name, list, err := p.running(c.Context())
	if p.elsewhere(err) {
		return p.fire(c, given, at)
	}
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(list))
	for i := range list {
		texts[i] = list[i].Cron
	}
	text, err := chooseCron(texts, given)
	if err != nil {
		return nil, err
	}
	return api.RunCron(c.Context(), name, &client.RunCron{Cron: text, At: at})
}

// fire asks the project where it listens.
func (p *by) fire(c *cobra.Command, given []string, at *time.Time) (*client.Run, error) {
	m, err := p.load()
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, next := range crons.Upcoming(m, time.Now()) {
		texts = append(texts, next.Cron)
	}
	text, err := chooseCron(texts, given)
	if err != nil {
		return nil, err
	}
	return fire(c.Context(), net.JoinHostPort(p.host, strconv.Itoa(p.port)), text, at)
}

// chooseCron returns the cron that is meant.
func chooseCron(list, given []string) (string, error) {
	if len(given) == 0 {
		switch len(list) {
		case 0:
			return "", nil // the handler can be run all the same
		case 1:
			return list[0], nil
		}
		return "", fault.New(fault.Invalid, "cron_ambiguous", "the project has %d crons", len(list)).
			WithHint("say which one: its number in \"runlot cron list\", or its expression in quotes")
	}
	text := strings.Join(strings.Fields(given[0]), " ")
	for i := range list {
		if strings.EqualFold(list[i], text) || strconv.Itoa(i+1) == text {
			return list[i], nil
		}
	}
	return "", fault.New(fault.NotFound, "cron_unknown", "the project has no cron %s", strconv.Quote(given[0])).
		WithHint("\"runlot cron list\" shows what it has; an expression is one argument, in quotes")
}

// ended prints how a run ended, unless that is printed already, and fails the command when it did not end well.
func ended(c *cobra.Command, r *client.Run, printed bool) error {
	if r.Outcome == string(queue.OK) {
		if printed {
			return nil
		}
		_, err := fmt.Fprintf(command.Stdout(c), "ok in %s\n", took(r))
		return err
	}
	why := r.Reason
	if r.Error != nil {
		why = r.Error.Name + ": " + r.Error.Message
	}
	failed := fault.New(fault.Conflict, "run_failed", "%s in %s: %s", r.Outcome, took(r), terminal.Clean(why))
	if r.Error != nil && r.Error.Location != "" {
		failed = failed.WithHint("it was thrown at %s", terminal.Clean(r.Error.Location))
	}
	return failed
}
