package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/remote"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/config"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/d1"
	rooms "github.com/runlot/runlot/internal/daemon/d1"
)

// d1Command gathers what has to do with a project's D1 databases.
func d1Command() *cobra.Command {
	c := &cobra.Command{
		Use:   "d1",
		Short: "Use the D1 databases of a project, here or on a celld",
		Long: `d1 works on the databases that "runlot dev" uses, whether it runs or not, and
with --remote or --server on those of an app that was deployed to a celld. A
DATABASE is named by its name, its binding or its id; it can be left out where
there is one only.`,
		Example: `  runlot d1 migrations create "create users"
  runlot d1 migrations apply
  runlot d1 migrations apply --remote
  runlot d1 execute main --command "SELECT * FROM users LIMIT 5"`,
		RunE: command.HelpOrUnknown,
		Args: cobra.ArbitraryArgs,
	}
	migrations := &cobra.Command{
		Use:   "migrations",
		Short: "List, apply and create migrations",
		Long: `A migration is a file of SQL whose name begins with a number, in the folder that
the configuration names (migrations by default). Each is applied once, in order
and as a whole; the database records it in its table d1_migrations.`,
		Example: `  runlot d1 migrations list
  runlot d1 migrations apply main`,
		RunE: command.HelpOrUnknown,
		Args: cobra.ArbitraryArgs,
	}
	migrations.AddCommand(d1ListCommand(), d1ApplyCommand(), d1CreateCommand())
	c.AddCommand(d1DatabasesCommand(), d1ExecuteCommand(), migrations)
	return c
}

// d1Flags are the flags that say which project is meant.
func d1Flags(c *cobra.Command, choice *d1Choice) {
	c.Flags().StringVar(&choice.Dir, "dir", ".", "`FOLDER` of the project")
	c.Flags().StringVar(&choice.State, "state", "", "`FOLDER` that holds the databases (default DIR/.runlot)")
	c.Flags().StringVarP(&choice.Config, "config", "c", "", "configuration `FILE`, where the folder has more than one")
	c.Flags().StringVarP(&choice.Env, "env", "e", "", "`NAME` of an environment of a wrangler configuration")
	c.Flags().StringVar(&choice.app, "app", "", "`APP` by its name, on a celld (default: that of the\nproject)")
	c.Flags().BoolVar(&choice.remote, "remote", false, "the databases of the celld of the last login")
	remote.ServerFlag(c, &choice.server)
	command.CompleteFolders(c, "dir", "state")
	c.ValidArgsFunction = cobra.NoFileCompletions
}

// d1Choice says which database is meant, and where it is.
type d1Choice struct {
	rooms.Choice

	app, server string
	remote      bool
}

// withD1 opens the database that is meant, for one use of it: on a celld, through what runs in the state folder, or the file
// itself.
func withD1(c *cobra.Command, choice *d1Choice, use func(p *rooms.Project) error) error {
	p, err := openD1(c, choice)
	if err != nil {
		return err
	}
	defer p.Close()
	return use(p)
}

func openD1(c *cobra.Command, choice *d1Choice) (*rooms.Project, error) {
	api, err := choice.connect(c)
	if err != nil {
		return nil, err
	}
	if api == nil {
		return rooms.Open(choice.Choice, newLog(command.Stderr(c), false))
	}
	if choice.app != "" {
		return reachD1(c, api, choice)
	}
	name, err := choice.name()
	if err != nil {
		return nil, err
	}
	choice.Remote = &remote.D1{API: api, App: name}
	return rooms.Open(choice.Choice, nil)
}

// name is the name of the project's app.
func (d *d1Choice) name() (string, error) {
	loaded, err := config.Load(d.Dir, config.Choice{File: d.Config, Env: d.Env, NoSecrets: true})
	if err != nil {
		return "", err
	}
	return loaded.Manifest.Name, nil
}

// connect returns a client of the program that has the databases; nil when none runs.
func (d *d1Choice) connect(c *cobra.Command) (*client.Client, error) {
	if d.server == "" && !d.remote {
		if d.app != "" {
			return nil, command.Usage("%s takes --app with --remote or --server", c.CommandPath())
		}
		return remote.ConnectDev(c.Context(), d.StateFolder())
	}
	if d.State != "" {
		return nil, command.Usage("%s takes either --state, or --remote and --server", c.CommandPath())
	}
	return remote.ConnectCelld(d.server)
}

// reachD1 finds a database of an app whose project is not at hand.
func reachD1(c *cobra.Command, api *client.Client, choice *d1Choice) (*rooms.Project, error) {
	list, err := api.D1Databases(c.Context(), choice.app, "")
	if err != nil {
		return nil, err
	}
	m := &app.Manifest{}
	for i := range list {
		m.D1Databases = append(m.D1Databases, app.D1Database{
			Binding: list[i].Binding, Name: list[i].Name, ID: list[i].ID, MigrationsTable: list[i].MigrationsTable, MigrationsDir: app.DefaultMigrationsDir,
		})
	}
	db, err := rooms.Find(m, choice.app, choice.Database)
	if err != nil {
		return nil, err
	}
	return rooms.Reach(&remote.D1{API: api, App: choice.app}, db, choice.Dir), nil
}

// d1DatabasesCommand lists databases.
func d1DatabasesCommand() *cobra.Command {
	var choice d1Choice
	var asJSON bool
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the D1 databases of an app",
		Long:    "list prints the D1 databases that the app declares, with the size of each where\nit runs.",
		Example: "  runlot d1 list\n  runlot d1 list --remote --app my-app",
		Args:    command.Args(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			list, err := choice.databases(c)
			if err != nil {
				return err
			}
			if asJSON {
				return command.JSON(c, list)
			}
			if len(list) == 0 {
				fmt.Fprintln(c.ErrOrStderr(), "the app declares no D1 database")
				return nil
			}
			rows := make([][]terminal.Cell, len(list))
			for i := range list {
				rows[i] = remote.Cells(list[i].Name, "env."+list[i].Binding, list[i].ID, remote.Size(list[i].Bytes))
			}
			terminal.New(command.Stdout(c)).Table([]string{"NAME", "BINDING", "ID", "SIZE"}, rows)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	d1Flags(c, &choice)
	return c
}

// databases are those of the app, with their sizes.
func (d *d1Choice) databases(c *cobra.Command) ([]client.D1Database, error) {
	api, err := d.connect(c)
	if err != nil {
		return nil, err
	}
	if api == nil {
		return d.local()
	}
	name := d.app
	if name == "" {
		if name, err = d.name(); err != nil {
			return nil, err
		}
	}
	return api.D1Databases(c.Context(), name, "")
}

// local are the databases that the configuration declares.
func (d *d1Choice) local() ([]client.D1Database, error) {
	list, err := rooms.List(d.Choice)
	if err != nil {
		return nil, err
	}
	out := make([]client.D1Database, len(list))
	for i := range list {
		out[i] = client.D1Database{
			Binding: list[i].Binding, Name: list[i].Name, ID: list[i].Identity(), Bytes: list[i].Bytes, MigrationsTable: list[i].MigrationsTable,
		}
	}
	return out, nil
}

// d1ExecuteCommand runs SQL.
func d1ExecuteCommand() *cobra.Command {
	var choice d1Choice
	var text, file string
	var asJSON bool
	c := &cobra.Command{
		Use:   "execute [DATABASE]",
		Short: "Run SQL in a D1 database",
		Long: `execute runs the statements of a text or a file as one transaction, of which
nothing is left when one of them fails, and prints the rows that they return.`,
		Example: `  runlot d1 execute --command "SELECT count(*) FROM users"
  runlot d1 execute main --file seed.sql
  runlot d1 execute main --command "SELECT * FROM users" --json`,
		Args: command.Args(0, 1, "database"),
		RunE: func(c *cobra.Command, given []string) error {
			if (text == "") == (file == "") {
				return command.Usage("%s needs either --command or --file", c.CommandPath())
			}
			choice.Database = strings.Join(given, "")
			return withD1(c, &choice, func(p *rooms.Project) error {
				var results []d1.Result
				var err error
				if file != "" {
					results, err = p.ExecuteFile(c.Context(), file)
				} else {
					results, err = p.Execute(c.Context(), "the command", text)
				}
				switch {
				case err != nil:
					return err
				case asJSON:
					_, err = c.OutOrStdout().Write(append(rooms.JSON(results), '\n'))
					return err
				default:
					return printResults(c.OutOrStdout(), c.ErrOrStderr(), results)
				}
			})
		},
	}
	c.Flags().StringVar(&text, "command", "", "`SQL` to run")
	c.Flags().StringVar(&file, "file", "", "`FILE` of SQL to run")
	c.Flags().BoolVar(&asJSON, "json", false, "print the results as JSON")
	d1Flags(c, &choice)
	return c
}

// maxCell is the most characters of a value that a table shows.
const maxCell = 60

// printResults prints the rows of each statement that returns some, and says what was written.
func printResults(out, talk io.Writer, results []d1.Result) error {
	changes := int64(0)
	for i := range results {
		r := &results[i]
		changes += r.Meta.Changes
		if len(r.Columns) == 0 {
			continue
		}
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, strings.Join(r.Columns, "\t"))
		for _, row := range r.Rows {
			cells := make([]string, len(row))
			for j, v := range row {
				cells[j] = cell(v)
			}
			fmt.Fprintln(table, strings.Join(cells, "\t"))
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	statements := fmt.Sprintf("%d statements", len(results))
	if len(results) == 1 {
		statements = "1 statement"
	}
	fmt.Fprintf(talk, "%s, %d rows changed\n", statements, changes)
	return nil
}

// cell shows a value on one line.
func cell(v d1.Value) string {
	var text string
	switch v := v.(type) {
	case nil:
		return "NULL"
	case []byte:
		return fmt.Sprintf("(%d B)", len(v))
	case string:
		text = strings.Map(func(c rune) rune {
			if unicode.IsControl(c) {
				return ' '
			}
			return c
		}, v)
	default:
		text = fmt.Sprint(v)
	}
	if runes := []rune(text); len(runes) > maxCell {
		return string(runes[:maxCell-1]) + "…"
	}
	return text
}

// d1ListCommand lists migrations.
func d1ListCommand() *cobra.Command {
	var choice d1Choice
	c := &cobra.Command{
		Use:     "list [DATABASE]",
		Short:   "List the migrations, and which are applied",
		Long:    `list prints each migration with the time when it was applied (UTC), in order.`,
		Example: "  runlot d1 migrations list",
		Args:    command.Args(0, 1, "database"),
		RunE: func(c *cobra.Command, given []string) error {
			choice.Database = strings.Join(given, "")
			return withD1(c, &choice, func(p *rooms.Project) error {
				list, err := p.Migrations(c.Context())
				if err != nil {
					return err
				}
				if len(list) == 0 {
					fmt.Fprintf(c.ErrOrStderr(), "there are no migrations in %s\n", p.MigrationsDir)
					return nil
				}
				table := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
				for i := range list {
					state := list[i].Applied
					switch {
					case state == "":
						state = "pending"
					case list[i].Missing:
						state += " (its file is gone)"
					}
					fmt.Fprintf(table, "%s\t%s\n", list[i].Name, state)
				}
				return table.Flush()
			})
		},
	}
	d1Flags(c, &choice)
	return c
}

// d1ApplyCommand applies migrations.
func d1ApplyCommand() *cobra.Command {
	var choice d1Choice
	c := &cobra.Command{
		Use:   "apply [DATABASE]",
		Short: "Apply the migrations that are pending",
		Long: `apply applies each pending migration in order, as one transaction each. It stops
at the first that fails, of which nothing is left, and says which statement it
was. The database is made when it does not exist.`,
		Example: "  runlot d1 migrations apply main",
		Args:    command.Args(0, 1, "database"),
		RunE: func(c *cobra.Command, given []string) error {
			choice.Database = strings.Join(given, "")
			return withD1(c, &choice, func(p *rooms.Project) error {
				applied := 0
				err := p.Apply(c.Context(), func(name string) {
					applied++
					fmt.Fprintf(c.OutOrStdout(), "applied %s\n", name)
				})
				if err == nil && applied == 0 {
					fmt.Fprintf(c.ErrOrStderr(), "nothing is pending for %s\n", p.Database.Name)
				}
				return err
			})
		},
	}
	d1Flags(c, &choice)
	return c
}

// d1CreateCommand makes a migration.
func d1CreateCommand() *cobra.Command {
	var choice d1Choice
	c := &cobra.Command{
		Use:   "create [DATABASE] DESCRIPTION",
		Short: "Make the file of a new migration",
		Long: `create makes an empty migration in the folder of the database's migrations,
numbered behind those that are there, and prints its path.`,
		Example: `  runlot d1 migrations create "create users"
  runlot d1 migrations create main "create users"`,
		Args: func(c *cobra.Command, given []string) error {
			if len(given) > 2 {
				return command.Usage("%s takes a database and one description; put several words in quotes", c.CommandPath())
			}
			return command.Args(1, 2, "a description of what it does")(c, given)
		},
		RunE: func(c *cobra.Command, given []string) error {
			choice.Database = strings.Join(given[:len(given)-1], "")
			return withD1(c, &choice, func(p *rooms.Project) error {
				path, err := p.Create(given[len(given)-1], time.Now())
				if err != nil {
					return err
				}
				if abs, err := filepath.Abs(path); err == nil && !filepath.IsAbs(choice.Dir) {
					if rel, err := filepath.Rel(".", abs); err == nil {
						path = rel
					}
				}
				_, err = fmt.Fprintln(c.OutOrStdout(), path)
				return err
			})
		},
	}
	d1Flags(c, &choice)
	return c
}
