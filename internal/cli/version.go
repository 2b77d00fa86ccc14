package cli

import (
	"encoding/json"
	"fmt"

	"github.com/runlot/runlot/internal/cli/command"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/internal/daemon"
)

// versionCommand prints the versions of the program and of the parts that it stands on.
func versionCommand(program string) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the versions of the program, of workerd and of PostgreSQL",
		Example: "  " + program + " version\n  " + program + " version --json",
		Args:    command.Args(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			program := c.Root()
			versions, err := daemon.VersionsOfParts(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(map[string]string{
					program.Name(): program.Version, "workerd": versions.Workerd, "postgres": versions.Postgres,
				})
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s %s\nworkerd %s\nPostgreSQL %s\n", program.Name(), program.Version, versions.Workerd, versions.Postgres)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return c
}
