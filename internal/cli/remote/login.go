package remote

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/core/fault"
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
	return asks(&cobra.Command{
		Use:     "whoami",
		Short:   "Show the server and the token in use",
		Example: "  runlot whoami",
		Args:    command.Args(0, 0, ""),
	}, ofInstance, func(c *call) (*client.Whoami, error) {
		return c.api.Whoami(c.Context())
	}, func(c *call, who *client.Whoami) error {
		return c.say("%s\n  token   %s %q (%s)\n  celld   %s", c.api.Server(), who.Token.ID, who.Token.Name, scope(&who.Token), who.Version)
	})
}
