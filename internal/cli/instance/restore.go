package instance

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/daemon/backup"
)

// Restore makes a data folder of a backup.
func Restore(s Settings) *cobra.Command {
	var o backup.RestoreOptions
	var asJSON bool
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a data folder of a backup",
		Long: `restore checks every checksum of FILE before it changes anything, and unpacks it
into the data folder, which is new or empty. celld must not run there. Start it
after that: every message that was stored is delivered, those that were in
flight again without a retry spent, delayed ones at their time; dead letters are
in their queue.

--force takes a folder that holds something, which is then kept inside of it, in
a folder before-restore-TIME. A restore that is cut off leaves a folder on which
nothing starts: make it again.

Do not run the copy beside the original: both would handle the same messages and
run the same crons.`,
		Example: `  celld restore --data /var/lib/celld /backup/celld-2026-11-30.tar.gz
  celld restore --data /srv/copy --key /safe/secrets.key backup.tar.gz`,
		Args: command.Args(1, 1, "file"),
		RunE: func(c *cobra.Command, files []string) error {
			settings, err := s.Read(c)
			if err != nil {
				return err
			}
			p := newProgress(command.Stderr(c))
			defer p.end()
			o.Data, o.File, o.Progress = settings.Data, files[0], p.tell
			r, err := backup.Restore(c.Context(), o)
			p.end()
			if err != nil {
				return err
			}
			talk := terminal.New(command.Stderr(c))
			for _, name := range r.Manifest.Elsewhere {
				if name == "" {
					name = "given by --database-url"
				}
				talk.Labelled(terminal.Yellow, noteLabel, fmt.Sprintf("the database %s was not in the backup: use pg_restore", name))
			}
			if r.KeyMissing {
				talk.Labelled(terminal.Yellow, noteLabel,
					fmt.Sprintf("put the secrets.key of the original into %s before the start; without it the secrets of the apps have to be put again", o.Data))
			}
			if asJSON {
				return command.JSON(c, r)
			}
			out := command.Stdout(c)
			if r.Aside != "" {
				fmt.Fprintf(out, "What was there is in %s\n", r.Aside)
			}
			_, err = fmt.Fprintf(out, "Restored the backup of %s to %s\n", r.Manifest.Created.Format("2006-01-02 15:04:05 UTC"), o.Data)
			return err
		},
	}
	some(c, s, "data")
	f := c.Flags()
	f.BoolVar(&o.Force, "force", false, "keep aside what the folder holds, and restore")
	f.StringVar(&o.Key, "key", "", "`FILE` with the key of the secrets, when the backup\nhas none")
	command.Must(c.MarkFlagFilename("key"))
	f.BoolVar(&asJSON, "json", false, "print what was restored as JSON")
	return c
}
