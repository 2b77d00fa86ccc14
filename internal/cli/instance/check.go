package instance

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/daemon/checkup"
)

// Check looks at the machine.
func Check(s Settings) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "check",
		Short: "Test whether this machine is fit for celld, and say what to mend",
		Long: `check takes the settings of the daemon and looks at what it would meet: the data
folder and its disk, workerd, PostgreSQL (the one that comes along, or your own:
its version, settings, rights and clock), the ports, the limit of open files,
and the mail server, where there is one. It changes nothing, and may be run
while celld does. Exit code 1 means that celld would not start or not keep its
promises.`,
		Example: `  celld check --data /var/lib/celld
  celld check --config /etc/celld.toml --json`,
		Args: command.Args(0, 0, "argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			settings, err := s.Read(c)
			if err != nil {
				return err
			}
			list, err := checkup.Run(c.Context(), settings)
			if err != nil {
				return err
			}
			if asJSON {
				err = command.JSON(c, list)
			} else {
				show(terminal.New(command.Stdout(c)), list)
			}
			if err != nil {
				return err
			}
			failed := 0
			for i := range list {
				if list[i].State == checkup.Fail {
					failed++
				}
			}
			if failed > 0 {
				return fault.New(fault.Environment, "check_failed", "%d of %d checks failed", failed, len(list)).WithHint("the list says what to mend")
			}
			return nil
		},
	}
	some(c, s, "data", "listen", "operator", "database-url")
	c.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	return c
}

// styles are how the states look.
var styles = map[checkup.State]terminal.Style{checkup.OK: terminal.Green, checkup.Warn: terminal.Yellow, checkup.Fail: terminal.Red}

func show(out *terminal.Output, list []checkup.Finding) {
	rows := make([][]terminal.Cell, len(list))
	for i := range list {
		text := list[i].Text
		if list[i].Hint != "" {
			text = fmt.Sprintf("%s → %s", text, list[i].Hint)
		}
		rows[i] = []terminal.Cell{{Text: list[i].Check}, {Text: string(list[i].State), Style: styles[list[i].State]}, {Text: text}}
	}
	out.Table([]string{"CHECK", "STATE", "FOUND"}, rows)
}
