package remote

import (
	"github.com/spf13/cobra"

	"github.com/runlot/runlot/internal/config"
	"github.com/runlot/runlot/internal/core/fault"
)

// project says which app a command is about: the one named, or that of a folder.
type project struct {
	app, dir, config, env, server string
}

// flags defines the flags that choose an app.
func (p *project) flags(c *cobra.Command) {
	c.Flags().StringVar(&p.app, "app", "", "`APP` by its name (default: that of this folder's\nproject)")
	serverFlag(c, &p.server)
}

// name is the app's name.
func (p *project) name() (string, error) {
	if p.app != "" {
		return p.app, nil
	}
	dir := p.dir
	if dir == "" {
		dir = "."
	}
	loaded, err := config.Load(dir, config.Choice{File: p.config, Env: p.env, NoSecrets: true})
	if err != nil {
		if f := fault.From(err); f.Code == config.CodeMissing {
			return "", f.WithHint("name an app with --app, or go to the folder of its project")
		}
		return "", err
	}
	return loaded.Manifest.Name, nil
}
