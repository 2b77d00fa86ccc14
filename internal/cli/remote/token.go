package remote

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/core/span"
)

// Tokens is where API tokens are made, listed and revoked: a server, or the data folder of one.
type Tokens interface {
	CreateToken(ctx context.Context, t *client.NewToken) (*client.CreatedToken, error)
	Tokens(ctx context.Context) ([]client.Token, error)
	RevokeToken(ctx context.Context, id string) error
}

// TokenDoor is how the commands about tokens get at them.
type TokenDoor struct {
	// Program is the program that the commands belong to, with the flags that its examples need, and Long what its help says
	// first.
	Program, Flags, Long string
	// Role is that of a token for which none is named.
	Role string
	// Prepare gives a command the flags that it needs, and returns what calls run with the tokens.
	Prepare func(c *cobra.Command) (with func(c *cobra.Command, run func(Tokens) error) error)
}

// Token gathers the commands about API tokens of a server.
func Token() *cobra.Command {
	return TokenCommand(TokenDoor{Program: "runlot", Role: "deploy", Prepare: func(c *cobra.Command) func(*cobra.Command, func(Tokens) error) error {
		var server string
		serverFlag(c, &server)
		return func(_ *cobra.Command, run func(Tokens) error) error {
			api, err := connect(server)
			if err != nil {
				return err
			}
			return run(api)
		}
	}})
}

// TokenCommand gathers the commands about API tokens behind a door.
func TokenCommand(d TokenDoor) *cobra.Command {
	c := &cobra.Command{
		Use:     "token",
		Short:   "Make, list and revoke API tokens",
		Long:    d.Long,
		Example: "  " + d.Program + " token create ann --role admin" + d.Flags,
		Args:    cobra.ArbitraryArgs, RunE: command.HelpOrUnknown,
	}
	c.AddCommand(d.create(), d.list(), d.revoke())
	return c
}

func (d TokenDoor) create() *cobra.Command {
	var asJSON bool
	var expires time.Duration
	t := &client.NewToken{}
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Make an API token",
		Long: `create makes a token and writes it to standard output. It is shown this once.

Roles: read looks at everything but secrets; deploy changes apps, queues and
messages too; admin makes and revokes tokens too.`,
		Example: fmt.Sprintf("  %s token create ann --role admin%s\n  %[1]s token create ci --role deploy --app my-app%s > token", d.Program, d.Flags, d.Flags),
		Args:    command.Args(1, 1, "name for the token"),
	}
	with := d.Prepare(c)
	c.RunE = func(c *cobra.Command, given []string) error {
		t.Name = given[0]
		if !slices.Contains([]string{"read", "deploy", "admin"}, t.Role) {
			return command.Usage("--role takes read, deploy or admin, not %s", command.Quoted(t.Role))
		}
		if expires < 0 {
			return command.Usage("--expires takes a time from now, not %s", span.Text(expires))
		}
		if expires > 0 {
			at := time.Now().Add(expires)
			t.Expires = &at
		}
		return with(c, func(tokens Tokens) error {
			made, err := tokens.CreateToken(c.Context(), t)
			if err != nil {
				return err
			}
			if asJSON {
				return command.JSON(c, made)
			}
			terminal.New(command.Stderr(c)).Printf("Token %s for %q (%s); it is not shown again:\n", made.ID, made.Name, scope(&made.Token))
			_, err = fmt.Fprintln(command.Stdout(c), made.Text)
			return err
		})
	}
	c.Flags().StringVar(&t.Role, "role", d.Role, "`ROLE`: read, deploy or admin")
	c.Flags().StringVar(&t.App, "app", "", "the only `APP` that it opens")
	c.Flags().DurationVar(&expires, "expires", 0, "`TIME` after which it is worthless, like 720h;\n0 is never")
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

func (d TokenDoor) list() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the API tokens",
		Example: "  " + d.Program + " token list" + d.Flags,
		Args:    command.Args(0, 0, ""),
	}
	with := d.Prepare(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		return with(c, func(tokens Tokens) error {
			list, err := tokens.Tokens(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return command.JSON(c, list)
			}
			rows := make([][]terminal.Cell, 0, len(list))
			for i := range list {
				t := &list[i]
				expires, used := "never", "never"
				if t.Expires != nil {
					expires = clock(*t.Expires)
				}
				if t.Used != nil {
					used = ago(*t.Used)
				}
				rows = append(rows, cells(t.ID, t.Name, scope(t), used, expires))
			}
			return (&call{Command: c}).table([]string{"ID", "NAME", "ROLE", "USED", "EXPIRES"}, rows, "There are no tokens.")
		})
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

func (d TokenDoor) revoke() *cobra.Command {
	c := &cobra.Command{
		Use:     "revoke ID",
		Short:   "Make an API token worthless",
		Example: "  " + d.Program + " token revoke r4n2kn9a" + d.Flags,
		Args:    command.Args(1, 1, "id of a token"),
	}
	with := d.Prepare(c)
	c.RunE = func(c *cobra.Command, given []string) error {
		return with(c, func(tokens Tokens) error {
			if err := tokens.RevokeToken(c.Context(), given[0]); err != nil {
				return err
			}
			return (&call{Command: c}).say("Revoked %s", given[0])
		})
	}
	return c
}
