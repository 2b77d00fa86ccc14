package cli

import (
	"github.com/spf13/cobra"

	"github.com/runlot/runlot/internal/cli/command"
)

// completionCommand prints what makes a shell complete the program's command lines.
func completionCommand(program string) *cobra.Command {
	shells := []string{"bash", "zsh", "fish"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print the completion of a shell",
		Long: `completion prints a script that has the shell complete commands, options and
folders, and names that the server knows: of apps, queues, databases, versions,
secrets and tokens. A server that does not answer within a second is not waited
for.`,
		Example: "  source <(" + program + " completion bash)         # in ~/.bashrc, with bash-completion\n" +
			"  source <(" + program + " completion zsh)          # in ~/.zshrc, after compinit\n" +
			"  " + program + " completion fish | source          # in ~/.config/fish/config.fish",
		ValidArgs: shells,
		Args:      command.Args(1, 1, "shell"),
		RunE: func(c *cobra.Command, given []string) error {
			out, root := c.OutOrStdout(), c.Root()
			switch given[0] {
			case shells[0]:
				return root.GenBashCompletionV2(out, true)
			case shells[1]:
				return root.GenZshCompletion(out)
			case shells[2]:
				return root.GenFishCompletion(out, true)
			}
			return command.Usage("%s takes bash, zsh or fish, not %s", c.CommandPath(), command.Quoted(given[0]))
		},
	}
}
