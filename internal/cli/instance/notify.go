package instance

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/daemon/celld/notices"
)

// Notify gathers the commands about notifications.
func Notify(s Settings) *cobra.Command {
	c := &cobra.Command{
		Use:     "notify",
		Short:   "Try how operators are told of what goes wrong",
		Example: "  celld notify test --config /etc/celld.toml",
		Args:    cobra.ArbitraryArgs, RunE: command.HelpOrUnknown,
	}
	c.AddCommand(notifyTest(s))
	return c
}

func notifyTest(s Settings) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "test",
		Short: "Send a test to everybody who is to be told",
		Long: `test takes the settings of the daemon and sends a test by each way that they
name: to each address by mail, and to each webhook. It may be run while celld
does. Exit code 1 means that one of them was not reached.`,
		Example: `  celld notify test --config /etc/celld.toml
  celld notify test --smtp-url smtp://me@mail.example.com \
      --smtp-password-file password --notify-to ann@example.com`,
		Args: command.Args(0, 0, "argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			settings, err := s.Read(c)
			if err != nil {
				return err
			}
			list, err := notices.Test(c.Context(), &settings.Notices, settings.Operator, settings.Version)
			if err != nil {
				return err
			}
			type result struct {
				Way  string `json:"way"`
				Sent bool   `json:"sent"`
				Text string `json:"text,omitempty"`
				Hint string `json:"hint,omitempty"`
			}
			results, rows, failed := make([]result, len(list)), make([][]terminal.Cell, len(list)), 0
			for i, tested := range list {
				r := result{Way: tested.Way, Sent: tested.Err == nil}
				state := terminal.Cell{Text: "sent", Style: terminal.Green}
				if tested.Err != nil {
					failed++
					f := fault.From(tested.Err)
					if r.Text, r.Hint = f.Message, f.Hint; f.Kind == fault.Internal {
						r.Text, r.Hint = fault.Detail(tested.Err), ""
					}
					state = terminal.Cell{Text: "failed", Style: terminal.Red}
				}
				text := r.Text
				if r.Hint != "" {
					text = fmt.Sprintf("%s → %s", text, r.Hint)
				}
				results[i], rows[i] = r, []terminal.Cell{{Text: r.Way}, state, {Text: text}}
			}
			if asJSON {
				err = command.JSON(c, results)
			} else {
				terminal.New(command.Stdout(c)).Table([]string{"To", "State", "Why"}, rows)
			}
			if err != nil || failed == 0 {
				return err
			}
			return fault.New(fault.Environment, "notify_failed", "%d of %d were not reached", failed, len(list)).WithHint("the list says why")
		},
	}
	some(c, s, "operator-url", "notify-to", "notify-from", "smtp-url", "smtp-password-file", "smtp-ca", "smtp-allow-plain", "webhook-url", "webhook-secret-file", "webhook-allow-private")
	c.Flags().BoolVar(&asJSON, "json", false, "print the results as JSON")
	return c
}
