package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/console"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/config"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/span"
	"github.com/runlot/runlot/internal/daemon/crons"
)

// cronCommand gathers what has to do with scheduled runs; alone it lists them.
func cronCommand() *cobra.Command {
	list := cronListCommand()
	c := &cobra.Command{
		Use:   "cron",
		Short: "Show when the scheduled handler runs, or run it now",
		Example: `  runlot cron                     # the crons of this folder's project
  runlot cron run                 # run its only cron now`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, given []string) error {
			if len(given) > 0 {
				return command.HelpOrUnknown(c, given)
			}
			return list.RunE(c, nil)
		},
	}
	c.AddCommand(list, cronRunCommand())
	return c
}

// project is how a command finds the configuration of a project.
type project struct{ config, env string }

func (p *project) flags(c *cobra.Command) {
	c.Flags().StringVarP(&p.config, "config", "c", "", "configuration `FILE`, where the folder has more than one")
	c.Flags().StringVarP(&p.env, "env", "e", "", "`NAME` of an environment of a wrangler configuration")
}

// upcoming reads the crons of the project in a folder.
func (p *project) upcoming(dir string, now time.Time) ([]crons.Next, error) {
	loaded, err := config.Load(dir, config.Choice{File: p.config, Env: p.env, NoSecrets: true})
	if err != nil {
		return nil, err
	}
	return crons.Upcoming(loaded.Manifest, now), nil
}

// cronListCommand prints the crons of a project.
func cronListCommand() *cobra.Command {
	var p project
	var asJSON bool
	c := &cobra.Command{
		Use:   "list [DIR]",
		Short: "Print the crons of a project and when each comes next",
		Long: `list prints the crons of the project in DIR (this folder by default) in the
order of its configuration, with the time of the next run, in UTC.`,
		Example: "  runlot cron list ./my-app",
		Args:    command.Args(0, 1, "folder"),
		RunE: func(c *cobra.Command, dirs []string) error {
			now := time.Now()
			list, err := p.upcoming(append(dirs, ".")[0], now)
			if err != nil {
				return err
			}
			if asJSON {
				return printCrons(c.OutOrStdout(), list)
			}
			if len(list) == 0 {
				terminal.New(command.Stderr(c)).Printf("the project has no crons\n")
				return nil
			}
			rows := make([][]terminal.Cell, len(list))
			for i, next := range list {
				rows[i] = []terminal.Cell{{Text: strconv.Itoa(i + 1)}, {Text: next.Cron, Style: terminal.Bold}, {Text: console.Upcoming(next.At, now)}, {Text: next.Words}}
			}
			terminal.New(command.Stdout(c)).Table([]string{"#", "Cron", "Next", "When"}, rows)
			return nil
		},
	}
	p.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	command.CompleteFolders(c)
	return c
}

func printCrons(out io.Writer, list []crons.Next) error {
	type row struct {
		Cron        string    `json:"cron"`
		Description string    `json:"description"`
		Next        time.Time `json:"next"`
	}
	rows := make([]row, len(list))
	for i, next := range list {
		rows[i] = row{next.Cron, next.Words, next.At}
	}
	return json.NewEncoder(out).Encode(rows)
}

// cronRunCommand runs the scheduled handler of a running project.
func cronRunCommand() *cobra.Command {
	var p project
	var port int
	var host, dir, at string
	c := &cobra.Command{
		Use:   "run [CRON]",
		Short: "Run the scheduled handler of a running project now",
		Long: `run has the project that runs under "runlot dev" call its scheduled handler now
and waits for the end. CRON is an expression, or the number of one in "runlot
cron list"; a project with one cron needs none. A run that fails is not tried
again. Exit code 1 means that it did not end well.`,
		Example: `  runlot cron run
  runlot cron run 2 --dir ./my-app --port 3000
  runlot cron run '0 9 * * MON-FRI' --time 2026-12-01T09:00:00Z`,
		Args: command.Args(0, 1, "cron"),
		RunE: func(c *cobra.Command, given []string) error {
			list, err := p.upcoming(dir, time.Now())
			if err != nil {
				return err
			}
			text, err := chooseCron(list, given)
			if err != nil {
				return err
			}
			query := url.Values{"cron": {text}, "format": {"json"}}
			if at != "" {
				when, err := time.Parse(time.RFC3339, at)
				if err != nil {
					return command.Usage("--time takes a time like 2026-12-01T09:00:00Z, not %q", at)
				}
				query.Set("time", strconv.FormatInt(when.UnixMilli(), 10))
			}
			address := net.JoinHostPort(host, strconv.Itoa(port))
			return fire(c.Context(), address, query, command.Stdout(c))
		},
	}
	p.flags(c)
	f := c.Flags()
	f.StringVar(&dir, "dir", ".", "`FOLDER` of the project")
	f.IntVarP(&port, "port", "p", defaultPort, "port `N` that the project listens on")
	f.StringVar(&host, "host", "127.0.0.1", "`ADDRESS` that the project listens on")
	f.StringVar(&at, "time", "", "`TIME` that the handler is told (default now)")
	command.Must(c.MarkFlagDirname("dir"))
	return c
}

// chooseCron returns the cron that is meant.
func chooseCron(list []crons.Next, given []string) (string, error) {
	if len(given) == 0 {
		switch len(list) {
		case 0:
			return "", nil // the handler can be run all the same
		case 1:
			return list[0].Cron, nil
		}
		return "", fault.New(fault.Invalid, "cron_ambiguous", "the project has %d crons", len(list)).
			WithHint("say which one: its number in \"runlot cron list\", or its expression in quotes")
	}
	text := strings.Join(strings.Fields(given[0]), " ")
	for i := range list {
		if strings.EqualFold(list[i].Cron, text) || strconv.Itoa(i+1) == text {
			return list[i].Cron, nil
		}
	}
	return "", fault.New(fault.NotFound, "cron_unknown", "the project has no cron %s", strconv.Quote(given[0])).
		WithHint("\"runlot cron list\" shows what it has; an expression is one argument, in quotes")
}

// fire requests the run and prints how it ended.
func fire(ctx context.Context, address string, query url.Values, stdout *os.File) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+crons.TriggerPath+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return fault.New(fault.Unavailable, "not_running", "nothing answers on %s", address).
			WithHint("start the project with \"runlot dev\", or say where it listens with --port N").WithCause(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, queue.MaxResultBody))
	if err != nil {
		return fault.New(fault.Unavailable, "run_lost", "the project ended before the run did").WithCause(err)
	}
	var answer crons.Answer
	if json.Unmarshal(text, &answer) != nil || answer.Run == "" {
		return fault.New(fault.Unavailable, "run_refused", "%s answers: %s", address, terminal.Cut(terminal.Clean(strings.TrimSpace(string(text))), 200)).
			WithHint("it has to be a project under \"runlot dev\"")
	}
	took := span.Text(time.Duration(answer.Milliseconds * float64(time.Millisecond)))
	if answer.Run == queue.OK {
		_, err := fmt.Fprintf(stdout, "ok in %s\n", took)
		return err
	}
	why := answer.Error
	if why == "" {
		why = answer.Reason
	}
	failed := fault.New(fault.Conflict, "run_failed", "%s in %s: %s", answer.Run, took, terminal.Clean(why))
	if answer.Location != "" {
		failed = failed.WithHint("it was thrown at %s", terminal.Clean(answer.Location))
	}
	return failed
}
