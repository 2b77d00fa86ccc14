package remote

import (
	"context"
	"os"
	"path/filepath"
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
	return ConnectFrom(ctx, ".", server)
}

// ConnectFrom is Connect for the project in another folder.
func ConnectFrom(ctx context.Context, dir, server string) (*client.Client, error) {
	if server == "" && os.Getenv(serverVariable) == "" {
		if api, err := ConnectDev(ctx, filepath.Join(dir, stateFolder)); api != nil || err != nil {
			return api, err
		}
	}
	api, err := connect(server)
	if f := fault.From(err); err != nil && f.Code == CodeNotLoggedIn {
		err = f.WithHint("%s; or go to the folder of a project that `runlot dev` runs", f.Hint)
	}
	return api, err
}

// ConnectCelld returns a client of the server that the flag or the environment names, or of that of the last login.
func ConnectCelld(server string) (*client.Client, error) { return connect(server) }

// ConnectDev returns a client of what a runlot dev runs that uses a state folder; nil when none does.
func ConnectDev(ctx context.Context, folder string) (*client.Client, error) {
	door, ok := desk.Read(ctx, folder)
	if !ok {
		return nil, nil //nolint:nilnil // that none runs is no error
	}
	return client.New(door.Server, door.Token)
}

// CodeNotLoggedIn is the code of Connect's fault where no server is known, or no token for it.
const CodeNotLoggedIn = "not_logged_in"

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
