// Package notices is the command about what operators were told.
package notices

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/remote"
	"github.com/runlot/runlot/internal/cli/terminal"
)

// Notices shows what operators were told.
func Notices() *cobra.Command {
	var limit int
	var asJSON bool
	var server string
	c := &cobra.Command{
		Use:   "notices",
		Short: "Show what operators were told, by mail and webhooks",
		Long: `notices shows what celld told its operators, or tries to: the newest first, and
why what was not sent was not. "celld notify test" tries the ways themselves.`,
		Example: "  runlot notices\n  runlot notices --limit 100 --json",
		Args:    command.Args(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 1 {
				return command.Usage("--limit takes a number of 1 or more, not %d", limit)
			}
			api, err := remote.ConnectCelld(server)
			if err != nil {
				return err
			}
			list, err := api.Notices(c.Context(), 0, limit)
			if err != nil {
				return err
			}
			if asJSON {
				return command.JSON(c, list)
			}
			if len(list) == 0 {
				terminal.New(command.Stderr(c)).Printf("There was nothing to tell.\n")
				return nil
			}
			rows := make([][]terminal.Cell, 0, len(list))
			for i := range list {
				rows = append(rows, remote.Cells(remote.Clock(list[i].At), list[i].Rule, fates(list[i].Ways), list[i].Title))
			}
			terminal.New(command.Stdout(c)).Table([]string{"TIME", "RULE", "STATE", "WHAT"}, rows)
			return nil
		},
	}
	c.Flags().IntVar(&limit, "limit", 30, "at most `N`, the newest")
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	remote.ServerFlag(c, &server)
	return c
}

// fates says what became of a notice: a line where all receivers fared alike, else one for each.
func fates(ways []client.NoticeWay) string {
	states := map[string]bool{}
	for i := range ways {
		states[ways[i].State] = true
	}
	if len(ways) == 0 {
		return "nobody"
	}
	if len(states) == 1 && ways[0].State == "sent" {
		return ways[0].State
	}
	lines := make([]string, 0, len(ways))
	for i := range ways {
		line := ways[i].State + ": " + ways[i].Way
		if ways[i].Problem != "" {
			line += ": " + ways[i].Problem
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
