// Package wrangler is the command that leads Cloudflare's wrangler to a celld.
package wrangler

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/remote"
)

// placeholder stands where a token belongs.
const placeholder = "a token of runlot token create"

// Env writes the environment in which wrangler drives a celld.
func Env() *cobra.Command {
	var dotenv, withToken bool
	var server string
	c := &cobra.Command{
		Use:   "wrangler-env",
		Short: "Write the environment in which wrangler drives a celld",
		Long: `Writes what wrangler and Cloudflare's SDKs have to find in their environment
to drive a celld: for a shell or, with --dotenv, for a file .env beside the
configuration, which wrangler reads by itself.`,
		Example: "  eval \"$(runlot wrangler-env --token)\"\n  runlot wrangler-env --dotenv --token > .env",
		Args:    command.Args(0, 0, ""),
	}
	c.Flags().BoolVar(&dotenv, "dotenv", false, "write the lines of a .env file")
	c.Flags().BoolVar(&withToken, "token", false, "write the token of the login, which is a secret")
	remote.ServerFlag(c, &server)
	c.RunE = func(c *cobra.Command, _ []string) error {
		address, token, err := remote.Choose(server)
		if err != nil {
			return err
		}
		api, err := client.New(address, token)
		if err != nil {
			return err
		}
		who, err := api.Whoami(c.Context())
		if err != nil {
			return err
		}
		if !withToken {
			token = placeholder
		}
		_, err = io.WriteString(command.Stdout(c), strings.Join(lines(address, token, who.Account, dotenv), ""))
		return err
	}
	return c
}

// lines are those for a server, a token and an account.
func lines(server, token, account string, dotenv bool) []string {
	base := server + "/client/v4"
	variables := [][2]string{
		{"CLOUDFLARE_API_BASE_URL", base}, // wrangler's
		{"CLOUDFLARE_BASE_URL", base},     // that of the SDKs
		{"CLOUDFLARE_API_TOKEN", token},
		{"CLOUDFLARE_ACCOUNT_ID", account},
		{"WRANGLER_SEND_METRICS", "false"},
		{"WRANGLER_SEND_ERROR_REPORTS", "false"},
		{"WRANGLER_HIDE_BANNER", "true"}, // with it, wrangler does not look for a newer one
	}
	list := make([]string, len(variables))
	for i, v := range variables {
		if list[i] = v[0] + "='" + strings.ReplaceAll(v[1], "'", `'\''`) + "'\n"; !dotenv {
			list[i] = "export " + list[i]
		}
	}
	return list
}
