package remote

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/config"
)

// What the commands about queues, in a package of their own, share with those here.

// ServerFlag defines the flag that names the server.
func ServerFlag(c *cobra.Command, server *string) { serverFlag(c, server) }

// Connect returns a client of the server that the flag, the environment or the last login names, with its token.
func Connect(server string) (*client.Client, error) { return connect(server) }

// FolderDatabase is the database of the app whose project is in this folder; "" when there is no project, or one that
// cannot be read.
func FolderDatabase() string {
	loaded, err := config.Load(".", config.Choice{NoSecrets: true})
	if err != nil {
		return ""
	}
	return loaded.Manifest.Database
}

// Ago is how long ago a time was, Clock how a clock shows it, and Size a number of bytes in the unit that reads best.
func Ago(at time.Time) string { return ago(at) }

// Clock is described at Ago.
func Clock(at time.Time) string { return clock(at) }

// Size is described at Ago.
func Size(n int64) string { return size(n) }

// Cells are plain cells of a table.
func Cells(texts ...string) []terminal.Cell { return cells(texts...) }
