// Package crons is the commands about scheduled runs.
package crons

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/console"
	"github.com/runlot/runlot/internal/cli/remote"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/config"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/span"
	"github.com/runlot/runlot/internal/daemon/crons"
)

// Cron gathers what has to do with scheduled runs; alone it lists the crons. port is where runlot dev listens by default.
func Cron(port int) *cobra.Command {
	list := listCommand()
	c := &cobra.Command{
		Use:   "cron",
		Short: "Show when the scheduled handler runs, or run it now",
		Example: `  runlot cron                     # the crons of this folder's project
  runlot cron runs --outcome failed
  runlot cron run                 # run its only cron now`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, given []string) error {
			if len(given) > 0 {
				return command.HelpOrUnknown(c, given)
			}
			return list.RunE(c, nil)
		},
	}
	c.AddCommand(list, runsCommand(), runCommand(port))
	c.Flags().AddFlagSet(list.Flags())
	return c
}

// choice says which app a command is about: one by its name, or the project of a folder.
type choice struct{ app, dir, config, env, server string }

func (p *choice) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&p.app, "app", "", "`APP` by its name (default: that of this folder's\nproject)")
	f.StringVarP(&p.config, "config", "c", "", "configuration `FILE`, where the folder has more than one")
	f.StringVarP(&p.env, "env", "e", "", "`NAME` of an environment of a wrangler configuration")
	remote.ServerFlag(c, &p.server)
}

// dirFlag defines the flag that names the project folder.
func (p *choice) dirFlag(c *cobra.Command) {
	c.Flags().StringVar(&p.dir, "dir", ".", "`FOLDER` of the project")
	command.Must(c.MarkFlagDirname("dir"))
}

// load reads the project.
func (p *choice) load() (*app.Manifest, error) {
	loaded, err := config.Load(p.dir, config.Choice{File: p.config, Env: p.env, NoSecrets: true})
	if err != nil {
		return nil, err
	}
	return loaded.Manifest, nil
}

// name is the name of the app.
func (p *choice) name() (string, error) {
	if p.app != "" {
		return p.app, nil
	}
	m, err := p.load()
	if err != nil {
		if f := fault.From(err); f.Code == config.CodeMissing {
			return "", f.WithHint("name an app with --app, or go to the folder of its project")
		}
		return "", err
	}
	return m.Name, nil
}

// named says that the person named a server or an app that runs on one, so that nothing else is meant.
func (p *choice) named() bool {
	return p.server != "" || p.app != "" || os.Getenv("RUNLOT_SERVER") != ""
}

// running finds the crons of the app where it runs.
func (p *choice) running(ctx context.Context) (*client.Client, string, []client.Cron, error) {
	name, err := p.name()
	if err != nil {
		return nil, "", nil, err
	}
	api, err := remote.ConnectFrom(ctx, p.dir, p.server)
	if err != nil {
		return nil, name, nil, err
	}
	list, err := api.Crons(ctx, name)
	return api, name, list, err
}

// elsewhere reports whether an error says that the app runs on no server that is known, and that no server was named.
func (p *choice) elsewhere(err error) bool {
	if p.named() || err == nil {
		return false
	}
	if e, ok := errors.AsType[*client.Error](err); ok {
		return e.Code == "app_not_running" || e.Code == "server_unreachable"
	}
	return fault.From(err).Code == remote.CodeNotLoggedIn
}

func listCommand() *cobra.Command {
	var p choice
	var asJSON bool
	c := &cobra.Command{
		Use:   "list [DIR]",
		Short: "Show the crons of an app, and when each comes next",
		Long: `list shows the crons of the project in DIR (this folder by default) in the order
of its configuration. Where the app runs, under runlot dev or on the celld of
the last login, it shows the last run of each too, and for how long it fails;
elsewhere what the configuration says.`,
		Example: "  runlot cron list ./my-app\n  runlot cron --app my-app --server http://127.0.0.1:8788",
		Args:    command.Args(0, 1, "folder"),
		RunE: func(c *cobra.Command, dirs []string) error {
			p.dir = append(dirs, ".")[0]
			_, _, list, err := p.running(c.Context())
			switch {
			case p.elsewhere(err):
				return p.listDeclared(c, asJSON)
			case err != nil:
				return err
			case asJSON:
				return command.JSON(c, list)
			}
			showRunning(c, list)
			return nil
		},
	}
	p.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	command.CompleteFolders(c)
	return c
}

// listDeclared shows what the configuration says.
func (p *choice) listDeclared(c *cobra.Command, asJSON bool) error {
	m, err := p.load()
	if err != nil {
		return err
	}
	now := time.Now()
	list := crons.Upcoming(m, now)
	if asJSON {
		type row struct {
			Cron        string    `json:"cron"`
			Description string    `json:"description"`
			Next        time.Time `json:"next"`
		}
		rows := make([]row, len(list))
		for i, next := range list {
			rows[i] = row{next.Cron, next.Words, next.At}
		}
		return command.JSON(c, rows)
	}
	if len(list) == 0 {
		noCrons(c)
		return nil
	}
	rows := make([][]terminal.Cell, len(list))
	for i, next := range list {
		rows[i] = []terminal.Cell{{Text: strconv.Itoa(i + 1)}, {Text: next.Cron, Style: terminal.Bold}, {Text: console.Upcoming(next.At, now)}, {Text: next.Words}}
	}
	terminal.New(command.Stdout(c)).Table([]string{"#", cronColumn, "NEXT", "WHEN"}, rows)
	return nil
}

const cronColumn = "CRON"

func noCrons(c *cobra.Command) { terminal.New(command.Stderr(c)).Printf("the project has no crons\n") }

// showRunning shows crons with how they are doing.
func showRunning(c *cobra.Command, list []client.Cron) {
	if len(list) == 0 {
		noCrons(c)
		return
	}
	rows := make([][]terminal.Cell, len(list))
	for i := range list {
		cron := &list[i]
		last, style := "-", terminal.Normal
		if r := cron.Last; r != nil {
			last, style = r.Outcome+" "+remote.Ago(r.Start), outcomeStyle(r.Outcome)
		}
		rows[i] = []terminal.Cell{
			{Text: strconv.Itoa(i + 1)}, {Text: cron.Cron, Style: terminal.Bold}, {Text: "in " + span.Text(until(cron.Next))}, {Text: last, Style: style}, {Text: standing(cron)},
		}
	}
	terminal.New(command.Stdout(c)).Table([]string{"#", cronColumn, "NEXT", "LAST RUN", "STATE"}, rows)
}

// until is how long a time is away, in whole seconds or, when it is far, in larger steps.
func until(at time.Time) time.Duration {
	d := max(0, time.Until(at))
	for _, step := range []time.Duration{24 * time.Hour, time.Hour, time.Minute} {
		if d > 2*step {
			return d.Truncate(step)
		}
	}
	return d.Truncate(time.Second)
}

// standing says how a cron is doing.
func standing(cron *client.Cron) string {
	var parts []string
	if cron.RunningSince != nil {
		parts = append(parts, "running"+lasting(*cron.RunningSince))
	}
	if cron.FailingSince != nil {
		parts = append(parts, "failing"+lasting(*cron.FailingSince))
	}
	if cron.RetryAt != nil {
		parts = append(parts, "again in "+span.Text(until(*cron.RetryAt)))
	}
	if parts == nil {
		return "waits"
	}
	return strings.Join(parts, ", ")
}

// lasting says for how long something has been so.
func lasting(since time.Time) string {
	if ago, old := strings.CutSuffix(remote.Ago(since), " ago"); old {
		return " for " + ago
	}
	return ""
}

// missed is the outcome of an occurrence that was not run.
const missed queue.Outcome = "missed"

// outcomes are what runs can be chosen by.
var outcomes = []string{
	string(queue.OK), string(queue.Failed), string(queue.TimedOut), string(queue.Lost), string(queue.Errored), string(missed),
}

func outcomeStyle(outcome string) terminal.Style {
	switch queue.Outcome(outcome) {
	case queue.OK:
		return terminal.Green
	case queue.Failed, queue.TimedOut, queue.Errored:
		return terminal.Red
	case queue.Lost, missed:
	}
	return terminal.Yellow
}

func runsCommand() *cobra.Command {
	var p choice
	var outcome string
	var limit int
	var asJSON bool
	c := &cobra.Command{
		Use:   "runs [CRON]",
		Short: "Show how the last scheduled runs ended",
		Long: `runs shows the last runs of an app, newest first: of all its crons, or of CRON,
an expression or the number of one in "runlot cron". They are kept for 7 days.`,
		Example: "  runlot cron runs\n  runlot cron runs 1 --outcome failed --limit 50",
		Args:    command.Args(0, 1, "cron"),
		RunE: func(c *cobra.Command, given []string) error {
			if limit < 1 {
				return command.Usage("--limit takes a number of 1 or more, not %d", limit)
			}
			if outcome != "" && !slices.Contains(outcomes, outcome) {
				return command.Usage("--outcome takes %s, not %s", strings.Join(outcomes, ", "), command.Quoted(outcome))
			}
			api, name, crons, err := p.running(c.Context())
			if err != nil {
				return err
			}
			filter := &client.RunFilter{Outcome: outcome}
			if len(given) > 0 {
				filter.Cron = expression(crons, given[0])
			}
			list, err := read(c.Context(), api, name, filter, limit)
			switch {
			case err != nil:
				return err
			case asJSON:
				return command.JSON(c, list)
			case len(list) == 0:
				terminal.New(command.Stderr(c)).Printf("There are no such runs; they are kept for 7 days.\n")
				return nil
			}
			rows := make([][]terminal.Cell, len(list))
			for i := range list {
				rows[i] = runRow(&list[i])
			}
			terminal.New(command.Stdout(c)).Table([]string{"STARTED", cronColumn, "OUTCOME", "TOOK", "ABOUT"}, rows)
			return nil
		},
	}
	p.flags(c)
	p.dirFlag(c)
	c.Flags().StringVar(&outcome, "outcome", "", "only with this `OUTCOME`: ok, failed, timeout, lost,\nerror or missed")
	c.Flags().IntVar(&limit, "limit", 20, "at most `N`, the newest")
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

// expression is the cron with a number, or the text itself: runs of one that the app no longer has are kept too.
func expression(list []client.Cron, given string) string {
	if n, err := strconv.Atoi(given); err == nil && n >= 1 && n <= len(list) {
		return list[n-1].Cron
	}
	return given
}

// read reads up to limit runs, newest first.
func read(ctx context.Context, api *client.Client, name string, filter *client.RunFilter, limit int) ([]client.Run, error) {
	list := []client.Run{}
	for len(list) < limit {
		filter.Limit = min(limit-len(list), queue.MaxPage)
		page, err := api.Runs(ctx, name, filter)
		if err != nil {
			return nil, err
		}
		list = append(list, page.Items...)
		if filter.Cursor = page.Next; filter.Cursor == "" {
			break
		}
	}
	return list, nil
}

func runRow(r *client.Run) []terminal.Cell {
	about := "for " + r.At.UTC().Format("2006-01-02 15:04") + " UTC"
	switch {
	case r.Manual:
		about = "by hand"
	case r.Attempt > 1:
		about += fmt.Sprintf(" · attempt %d", r.Attempt)
	}
	if r.Missed > 0 {
		about += fmt.Sprintf(" · %d missed", r.Missed)
	}
	if r.Retry != nil && time.Now().Before(*r.Retry) {
		about += " · again in " + span.Text(until(*r.Retry))
	}
	if why := cause(r); why != "" {
		about += "\n" + why
	}
	name := terminal.Clean(r.Cron)
	if name == "" {
		name = "-"
	}
	row := remote.Cells(remote.Ago(r.Start), name, r.Outcome, took(r), about)
	row[2].Style = outcomeStyle(r.Outcome)
	return row
}

func took(r *client.Run) string {
	return span.Text(time.Duration(r.Milliseconds * float64(time.Millisecond)))
}

// cause is why a run did not end well, on one line.
func cause(r *client.Run) string {
	if r.Error == nil {
		return terminal.Clean(r.Reason)
	}
	text := r.Error.Name
	if r.Error.Message != "" {
		text += ": " + r.Error.Message
	}
	if r.Error.Location != "" {
		text += "  at " + r.Error.Location
	}
	return terminal.Clean(text)
}
