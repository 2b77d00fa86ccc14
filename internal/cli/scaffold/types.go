package scaffold

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/config"
	"github.com/runlot/runlot/internal/config/envtypes"
	"github.com/runlot/runlot/internal/core/fault"
)

// typesFile is what runlot types writes, relative to the project.
const typesFile = "env.d.ts"

// CodeStale is the code of the fault that --check finds.
const CodeStale = "types_stale"

// Types writes the declaration of a project's env.
func Types() *cobra.Command {
	var choice config.Choice
	var check bool
	c := &cobra.Command{
		Use:   "types [DIR]",
		Short: "Write the TypeScript types of a project's env",
		Long: `types writes env.d.ts into the project in DIR (this folder by default): the
interface Env with what the configuration declares, over the npm package
@cloudflare/workers-types. Secrets are those of .dev.vars or .env, by name only.
Exit code 1 of --check means that the file is not what types would write.`,
		Example: `  runlot types
  runlot types ./my-app --check`,
		Args: command.Args(0, 1, "folder"),
		RunE: func(c *cobra.Command, dirs []string) error {
			dir := append(dirs, ".")[0]
			loaded, err := config.Load(dir, choice)
			if err != nil {
				return err
			}
			path := filepath.Join(dir, typesFile)
			before, err := os.ReadFile(path)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return unwritable(path, err)
			}
			there := err == nil
			text := envtypes.Declare(loaded, choice.Env)
			current := there && strings.ReplaceAll(string(before), "\r\n", "\n") == text
			switch {
			case check && !there:
				return fault.New(fault.NotFound, CodeStale, "there is no %s", path).WithHint("`runlot types` writes it")
			case check && !current:
				return fault.New(fault.Conflict, CodeStale, "%s is not what the configuration says", path).
					WithHint("`runlot types` writes it anew; the names of secrets come from .dev.vars or .env")
			case there && !strings.HasPrefix(string(before), envtypes.Mark):
				return fault.New(fault.Conflict, CodeExists, "%s was not made by runlot types, so it is left as it is", path).
					WithHint("rename it, or delete it")
			case !current:
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // a project is read by whoever reads its folder
					return unwritable(path, err)
				}
			}
			if check {
				_, err = fmt.Fprintf(command.Stdout(c), "%s is what the configuration says\n", path)
			} else {
				_, err = fmt.Fprintf(command.Stdout(c), "wrote %s\n", path)
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVarP(&choice.File, "config", "c", "", "configuration `FILE`, where the folder has more than one")
	f.StringVarP(&choice.Env, "env", "e", "", "`NAME` of an environment of a wrangler configuration")
	f.BoolVar(&check, "check", false, "write nothing; fail when the file is stale")
	command.CompleteFolders(c)
	return c
}
