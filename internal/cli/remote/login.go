package remote

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/span"
)

// Login keeps a token for a server.
func Login() *cobra.Command {
	var tokenFile string
	c := &cobra.Command{
		Use:   "login [URL]",
		Short: "Keep a token for a celld",
		Long: `login asks for an API token of the celld at URL, its operator address
(` + defaultServer + ` by default), checks it and keeps it for the commands that
follow. In scripts, set RUNLOT_SERVER and RUNLOT_TOKEN instead.`,
		Example: `  runlot login http://127.0.0.1:8788
  runlot login http://127.0.0.1:8788 --token-file /var/lib/celld/admin-token
  echo "$TOKEN" | runlot login http://127.0.0.1:8788`,
		Args: command.Args(0, 1, "URL of a celld"),
		RunE: func(c *cobra.Command, given []string) error {
			server := strings.TrimRight(append(given, defaultServer)[0], "/")
			token, err := readToken(c, tokenFile)
			if err != nil {
				return err
			}
			api, err := client.New(server, token)
			if err != nil {
				return err
			}
			who, err := api.Whoami(c.Context())
			if err != nil {
				return err
			}
			known, err := readCredentials()
			if err != nil {
				return err
			}
			known.Default, known.Tokens[server] = server, token
			if err := known.write(); err != nil {
				return err
			}
			_, err = fmt.Fprintf(command.Stdout(c), "Logged in to %s as %q (%s)\n", server, who.Token.Name, scope(&who.Token))
			return err
		},
	}
	c.Flags().StringVar(&tokenFile, "token-file", "", "`FILE` that holds the token")
	return c
}

// readToken takes the token from a file, from a terminal without showing it, or from standard input.
func readToken(c *cobra.Command, path string) (string, error) {
	if path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", fault.New(fault.Environment, "token_file", "the token in %s cannot be read", path).WithCause(err)
		}
		return strings.TrimSpace(string(text)), nil
	}
	in := command.Stdin(c)
	if command.IsTerminal(in) {
		text, err := command.ReadHidden(c, "Token: ")
		return strings.TrimSpace(text), err
	}
	line, err := bufio.NewReader(in).ReadString('\n')
	if strings.TrimSpace(line) == "" {
		return "", command.Usage("%s needs the token on standard input, or --token-file", c.CommandPath())
	}
	_ = err // a last line may lack its end
	return strings.TrimSpace(line), nil
}

func scope(t *client.Token) string {
	if t.App != "" {
		return t.Role + ", only " + t.App
	}
	return t.Role
}

// Logout forgets a token.
func Logout() *cobra.Command {
	return &cobra.Command{
		Use:     "logout [URL]",
		Short:   "Forget the token for a celld",
		Long:    "logout forgets the token on this machine. runlot token revoke makes it worthless\neverywhere.",
		Example: "  runlot logout",
		Args:    command.Args(0, 1, "URL of a celld"),
		RunE: func(c *cobra.Command, given []string) error {
			known, err := readCredentials()
			if err != nil {
				return err
			}
			server := strings.TrimRight(append(given, known.Default)[0], "/")
			if known.Tokens[server] == "" {
				return fault.New(fault.NotFound, CodeNotLoggedIn, "there is no token for %q", server)
			}
			delete(known.Tokens, server)
			if known.Default == server {
				known.Default = ""
			}
			if err := known.write(); err != nil {
				return err
			}
			_, err = fmt.Fprintf(command.Stdout(c), "Logged out of %s\n", server)
			return err
		},
	}
}

// Whoami shows whom the token belongs to.
func Whoami() *cobra.Command {
	var server string
	var asJSON bool
	c := &cobra.Command{
		Use:     "whoami",
		Short:   "Show the server and the token in use",
		Example: "  runlot whoami",
		Args:    command.Args(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := connect(server)
			if err != nil {
				return err
			}
			who, err := api.Whoami(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return command.JSON(c, who)
			}
			_, err = fmt.Fprintf(command.Stdout(c), "%s\n  token   %s %q (%s)\n  celld   %s\n", api.Server(), who.Token.ID, who.Token.Name, scope(&who.Token), who.Version)
			return err
		},
	}
	serverFlag(c, &server)
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

// Token gathers the commands about API tokens.
func Token() *cobra.Command {
	c := &cobra.Command{
		Use:     "token",
		Short:   "Make, list and revoke API tokens",
		Example: "  runlot token create ci --role deploy --app my-app",
		Args:    cobra.ArbitraryArgs, RunE: command.HelpOrUnknown,
	}
	c.AddCommand(tokenCreate(), tokenList(), tokenRevoke())
	return c
}

func tokenCreate() *cobra.Command {
	var server string
	var asJSON bool
	var expires time.Duration
	t := &client.NewToken{}
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Make an API token",
		Long: `create makes a token and writes it to standard output. It is shown this once.

Roles: read looks at everything but secrets; deploy changes apps, queues and
messages too; admin makes and revokes tokens too.`,
		Example: `  runlot token create ann --role admin
  runlot token create ci --role deploy --app my-app --expires 720h > token`,
		Args: command.Args(1, 1, "name for the token"),
		RunE: func(c *cobra.Command, given []string) error {
			t.Name = given[0]
			if !slices.Contains([]string{"read", "deploy", "admin"}, t.Role) {
				return command.Usage("--role takes read, deploy or admin, not %q", t.Role)
			}
			if expires < 0 {
				return command.Usage("--expires takes a time from now, not %s", span.Text(expires))
			}
			if expires > 0 {
				at := time.Now().Add(expires)
				t.Expires = &at
			}
			api, err := connect(server)
			if err != nil {
				return err
			}
			made, err := api.CreateToken(c.Context(), t)
			if err != nil {
				return err
			}
			if asJSON {
				return command.JSON(c, made)
			}
			terminal.New(command.Stderr(c)).Printf("Token %s for %q (%s); it is not shown again:\n", made.ID, made.Name, scope(&made.Token))
			_, err = fmt.Fprintln(command.Stdout(c), made.Text)
			return err
		},
	}
	serverFlag(c, &server)
	c.Flags().StringVar(&t.Role, "role", "deploy", "`ROLE`: read, deploy or admin")
	c.Flags().StringVar(&t.App, "app", "", "the only `APP` that it opens")
	c.Flags().DurationVar(&expires, "expires", 0, "`TIME` after which it is worthless, like 720h; 0 is never")
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

func tokenList() *cobra.Command {
	var server string
	var asJSON bool
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the API tokens",
		Example: "  runlot token list",
		Args:    command.Args(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := connect(server)
			if err != nil {
				return err
			}
			tokens, err := api.Tokens(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return command.JSON(c, tokens)
			}
			rows := make([][]terminal.Cell, 0, len(tokens))
			for i := range tokens {
				t := &tokens[i]
				expires := "never"
				if t.Expires != nil {
					expires = clock(*t.Expires)
				}
				used := "never"
				if t.Used != nil {
					used = ago(*t.Used)
				}
				rows = append(rows, cells(t.ID, t.Name, scope(t), used, expires))
			}
			terminal.New(command.Stdout(c)).Table([]string{"ID", "NAME", "ROLE", "USED", "EXPIRES"}, rows)
			return nil
		},
	}
	serverFlag(c, &server)
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

func tokenRevoke() *cobra.Command {
	var server string
	c := &cobra.Command{
		Use:     "revoke ID",
		Short:   "Make an API token worthless",
		Example: "  runlot token revoke r4n2kn9a",
		Args:    command.Args(1, 1, "id of a token"),
		RunE: func(c *cobra.Command, given []string) error {
			api, err := connect(server)
			if err != nil {
				return err
			}
			if err := api.RevokeToken(c.Context(), given[0]); err != nil {
				return err
			}
			_, err = fmt.Fprintf(command.Stdout(c), "Revoked %s\n", given[0])
			return err
		},
	}
	serverFlag(c, &server)
	return c
}
