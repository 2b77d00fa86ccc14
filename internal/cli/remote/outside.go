package remote

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/config"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/daemon/desk"
)

// What the commands about queues, in a package of their own, share with those here.

// ServerFlag defines the flag that names the server.
func ServerFlag(c *cobra.Command, server *string) { serverFlag(c, server) }

// Connect returns a client of the server that the flag or the environment names, of what `runlot dev` runs in this folder,
// or of the server of the last login.
func Connect(ctx context.Context, server string) (*client.Client, error) {
	if server == "" && os.Getenv(serverVariable) == "" {
		if door, ok := desk.Read(ctx, stateFolder); ok {
			return client.New(door.Server, door.Token)
		}
	}
	api, err := connect(server)
	if f := fault.From(err); err != nil && f.Code == codeNotLoggedIn {
		err = f.WithHint("%s; or go to the folder of a project that `runlot dev` runs", f.Hint)
	}
	return api, err
}

// stateFolder is where runlot dev keeps its state, unless it is told otherwise.
const stateFolder = ".runlot"

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

// AppName is the app of this name or, for "", of the project in this folder.
func AppName(named string) (string, error) { return (&project{app: named}).name() }
