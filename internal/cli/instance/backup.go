package instance

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/daemon/backup"
)

// Backup writes a backup.
func Backup(s Settings) *cobra.Command {
	var o backup.Options
	var asJSON bool
	c := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write everything that celld keeps into one file",
		Long: `backup copies the embedded PostgreSQL with all messages, versions, deployments
and tokens, the secrets as they are encrypted, and the D1 databases. celld may
run meanwhile. What was acknowledged before the backup began is in it. FILE is a
compressed tar file that ends with a checksum of each part; it has its name when
it is whole and on the disk.

The key of the secrets is left out, so that who gets hold of a backup cannot
read them: keep DIR/secrets.key in another place. Without it a restored celld
runs, and the secrets of its apps have to be put again. --with-key puts it into
FILE, with the first admin's token.

Databases on a PostgreSQL of your own are not in FILE: back them up with
pg_dump.`,
		Example: `  celld backup --data /var/lib/celld /backup/celld-$(date +%F).tar.gz`,
		Args:    command.Args(1, 1, "file"),
		RunE: func(c *cobra.Command, files []string) error {
			settings, err := s.Read(c)
			if err != nil {
				return err
			}
			p := newProgress(command.Stderr(c))
			defer p.end()
			o.Data, o.File, o.URLs = settings.Data, files[0], settings.DatabaseURLs
			o.Version, o.Log, o.Progress = settings.Version, slog.New(slog.DiscardHandler), p.tell
			r, err := backup.Make(c.Context(), o)
			p.end()
			if err != nil {
				return err
			}
			talk := terminal.New(command.Stderr(c))
			for _, name := range r.Manifest.Elsewhere {
				if name == "" {
					name = "given by --database-url"
				}
				talk.Labelled(terminal.Yellow, noteLabel, fmt.Sprintf("the database %s is not in the backup: use pg_dump", name))
			}
			if r.Manifest.Key != "" && !o.WithKey {
				talk.Labelled(terminal.Yellow, noteLabel, fmt.Sprintf("the key of the secrets is not in it: keep %s/secrets.key elsewhere", settings.Data))
			}
			if asJSON {
				return command.JSON(c, r)
			}
			_, err = io.WriteString(command.Stdout(c), describe(o.File, r))
			return err
		},
	}
	some(c, s, "data", "database-url")
	f := c.Flags()
	f.BoolVar(&o.Force, "force", false, "replace FILE when it exists")
	f.BoolVar(&o.WithKey, "with-key", false, "put the key of the secrets into FILE too")
	f.BoolVar(&asJSON, "json", false, "print the manifest as JSON")
	return c
}

func describe(file string, r *backup.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Backed up to %s, %s\n", file, size(r.FileBytes))
	for _, part := range r.Manifest.Parts {
		fmt.Fprintf(&b, "  %-12s %6d files  %10s\n", part.Name, part.Entries, size(part.Bytes))
	}
	return b.String()
}
