// Package complete has a shell complete the names that a server knows: of apps, queues, databases, versions, secrets and
// tokens.
package complete

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/cli/remote"
	"github.com/runlot/runlot/internal/cli/terminal"
)

// patience is how long a person who pressed the tab key is kept waiting for a server.
const patience = time.Second

// lookup asks a server for names.
type lookup func(ctx context.Context, c *cobra.Command, api *client.Client) ([]cobra.Completion, error)

// byFlag are the flags that take a name, and byArgument the commands that do, by the end of their path.
var (
	byFlag     = map[string]lookup{"app": apps, "queue": queues, "to": queues, "database": databases}
	byArgument = map[string]lookup{
		"runlot delete": apps, "runlot rollback": versions, "secret put": secrets, "secret delete": secrets, "token revoke": tokens,
	}
)

// words are the flags that take one of a few words.
var words = map[string][]string{
	"role":    {"read", "deploy", "admin"},
	"state":   {"visible", "delayed", "in-flight"},
	"outcome": {"ok", "failed", "timeout", "lost", "error", "expired", "gap"},
}

// Install completes the command lines of a program. Commands that complete by themselves stay as they are.
func Install(c *cobra.Command) {
	for _, one := range c.Commands() {
		Install(one)
	}
	for name, list := range words {
		if f := c.Flags().Lookup(name); f != nil && f.Value.Type() == "string" && isWord(c, name) {
			complete(c, name, func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
				return list, cobra.ShellCompDirectiveNoFileComp
			})
		}
	}
	if c.Flags().Lookup("server") == nil {
		return
	}
	for name, look := range byFlag {
		if c.Flags().Lookup(name) != nil {
			complete(c, name, func(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
				return ask(c, look)
			})
		}
	}
	look := argument(c)
	if look == nil || c.ValidArgsFunction != nil {
		return
	}
	c.ValidArgsFunction = func(c *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(given) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return ask(c, look)
	}
}

// isWord reports whether a flag takes one of the words that are known by its name: the --state of runlot dev is a folder, and
// runs of crons have outcomes of their own.
func isWord(c *cobra.Command, name string) bool {
	of := map[string]string{"state": "peek", "outcome": "batches"}[name]
	return of == "" || of == c.Name()
}

func complete(c *cobra.Command, flag string, f cobra.CompletionFunc) {
	if _, taken := c.GetFlagCompletionFunc(flag); !taken {
		_ = c.RegisterFlagCompletionFunc(flag, f) // it is there and not taken
	}
}

// argument is the lookup of a command's first argument; nil when it is not a name.
func argument(c *cobra.Command) lookup {
	for end, look := range byArgument {
		if strings.HasSuffix(c.CommandPath(), end) {
			return look
		}
	}
	if c.HasParent() && c.Parent().Name() == "queue" && strings.Contains(c.Use, "NAME") {
		return queues
	}
	return nil
}

// ask asks the server that the command line or the environment names. A server that does not answer in time, or does not
// know the token, knows no names: a shell has no place for errors.
func ask(c *cobra.Command, look lookup) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	api, err := remote.Connect(ctx, c.Flags().Lookup("server").Value.String())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, err := look(ctx, c, api)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

// value is what the command line says for a flag; "" when the command has none of the name.
func value(c *cobra.Command, flag string) string {
	if f := c.Flags().Lookup(flag); f != nil {
		return f.Value.String()
	}
	return ""
}

func described(name, text string) cobra.Completion {
	return cobra.CompletionWithDesc(name, terminal.Clean(text))
}

func apps(ctx context.Context, _ *cobra.Command, api *client.Client) ([]cobra.Completion, error) {
	found, err := api.Apps(ctx)
	list := make([]cobra.Completion, len(found))
	for i := range found {
		list[i] = described(found[i].Name, found[i].State)
	}
	return list, err
}

func queues(ctx context.Context, c *cobra.Command, api *client.Client) ([]cobra.Completion, error) {
	found, err := api.Queues(ctx, value(c, "app"))
	database := value(c, "database")
	var list []cobra.Completion
	for i := range found {
		if database == "" || found[i].Database == database {
			list = append(list, described(found[i].Name, "database "+found[i].Database))
		}
	}
	return list, err
}

func databases(ctx context.Context, c *cobra.Command, api *client.Client) ([]cobra.Completion, error) {
	found, err := api.Queues(ctx, value(c, "app"))
	var list []cobra.Completion
	seen := map[string]bool{}
	for i := range found {
		if name := found[i].Database; !seen[name] {
			seen[name] = true
			list = append(list, name)
		}
	}
	return list, err
}

func versions(ctx context.Context, c *cobra.Command, api *client.Client) ([]cobra.Completion, error) {
	app, err := remote.AppName(value(c, "app"))
	if err != nil {
		return nil, err
	}
	const most = 20
	found, err := api.Versions(ctx, app, 0, most)
	list := make([]cobra.Completion, len(found))
	for i := range found {
		list[i] = described(strconv.Itoa(found[i].Number), remote.Ago(found[i].Created)+" "+found[i].Message)
	}
	return list, err
}

func secrets(ctx context.Context, c *cobra.Command, api *client.Client) ([]cobra.Completion, error) {
	app, err := remote.AppName(value(c, "app"))
	if err != nil {
		return nil, err
	}
	found, err := api.Secrets(ctx, app)
	list := make([]cobra.Completion, len(found))
	for i := range found {
		list[i] = found[i].Name
	}
	return list, err
}

func tokens(ctx context.Context, _ *cobra.Command, api *client.Client) ([]cobra.Completion, error) {
	found, err := api.Tokens(ctx)
	list := make([]cobra.Completion, len(found))
	for i := range found {
		list[i] = described(found[i].ID, found[i].Name)
	}
	return list, err
}
