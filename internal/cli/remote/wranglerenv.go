package remote

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/internal/cli/command"
)

// tokenPlace stands where a token belongs.
const tokenPlace = "a token of runlot token create" //nolint:gosec // G101: it is none

// WranglerEnv writes the environment in which wrangler drives a celld.
func WranglerEnv() *cobra.Command {
	var dotenv, withToken bool
	c := &cobra.Command{
		Use:   "wrangler-env",
		Short: "Write the environment in which wrangler drives a celld",
		Long: `wrangler-env writes what wrangler and Cloudflare's SDKs have to find in their
environment to drive a celld: for a shell or, with --dotenv, for a file .env
beside the configuration, which wrangler reads by itself.`,
		Example: "  eval \"$(runlot wrangler-env --token)\"\n  runlot wrangler-env --dotenv --token > .env",
		Args:    command.Args(0, 0, ""),
	}
	c.Flags().BoolVar(&dotenv, "dotenv", false, "write the lines of a .env file")
	c.Flags().BoolVar(&withToken, "token", false, "write the token of the login, which is a secret")
	return talks(c, ofInstance, func(c *call) error {
		address, token, err := choose(c.api.Server())
		if err != nil {
			return err
		}
		who, err := c.api.Whoami(c.Context())
		if err != nil {
			return err
		}
		if !withToken {
			token = tokenPlace
		}
		for _, line := range wranglerEnv(address, token, who.Account, dotenv) {
			if err := c.say("%s", line); err != nil {
				return err
			}
		}
		return nil
	})
}

// wranglerEnv are the lines for a server, a token and an account.
func wranglerEnv(server, token, account string, dotenv bool) []string {
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
	lines := make([]string, len(variables))
	for i, v := range variables {
		if lines[i] = v[0] + "='" + strings.ReplaceAll(v[1], "'", `'\''`) + "'"; !dotenv {
			lines[i] = "export " + lines[i]
		}
	}
	return lines
}
