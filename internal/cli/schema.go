package cli

import (
	"github.com/spf13/cobra"

	"github.com/runlot/runlot/internal/cli/command"

	"github.com/runlot/runlot/schema"
)

// schemaCommand prints the JSON Schema of runlot.json, of this very version.
func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of runlot.json, for editors",
		Long: `schema prints the JSON Schema of runlot.json as this version reads it. Save it
beside the project and name it by "$schema", and an editor completes keys and
marks mistakes.`,
		Example: `  runlot schema > runlot.schema.json

  # then, in runlot.json: "$schema": "./runlot.schema.json"`,
		Args: command.Args(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := c.OutOrStdout().Write(schema.Runlot)
			return err
		},
	}
}
