package daemon

import (
	"path/filepath"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
	"github.com/runlot/runlot/internal/config"
	"github.com/runlot/runlot/internal/core/fault"
)

// DatabaseURL returns the address of the database of the first project of the options, as the app itself reaches it, in
// the embedded PostgreSQL that runs in the state folder.
func DatabaseURL(o Options) (string, error) {
	loaded, err := config.Load(o.Dirs[0], config.Choice{File: o.Config, Env: o.Env, NoSecrets: true})
	if err != nil {
		return "", err
	}
	m := loaded.Manifest
	if m.Database == "" {
		return "", fault.New(fault.Invalid, "no_database", "%s names no database", m.Name).
			WithHint(`add "database": %q to %s`, m.Name, filepath.Base(loaded.File))
	}
	state, err := filepath.Abs(o.State)
	if err != nil {
		return "", err
	}
	a, err := cluster.Locate(filepath.Join(state, "postgres"), m.Database)
	if err != nil {
		return "", err
	}
	return a.AppURL(), nil
}
