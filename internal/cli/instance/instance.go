// Package instance has the commands about a celld as a whole: its backup, its restore, and the machine that it runs on.
package instance

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/daemon/celld"
)

// noteLabel stands before what a person should know of what went well.
const noteLabel = "note:  "

// Settings are those of the daemon.
type Settings interface {
	// Define makes their flags, and one for a file of settings.
	Define(f *pflag.FlagSet)
	// Read takes what is given as flags, in the environment and in the file.
	Read(c *cobra.Command) (*celld.Settings, error)
}

// some gives a command a few of the daemon's settings as flags. The others are read as well, from the environment and the
// file, so that the same file serves.
func some(c *cobra.Command, s Settings, names ...string) {
	all := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	s.Define(all)
	for _, name := range append(names, "config") {
		c.Flags().AddFlag(all.Lookup(name))
	}
	if c.Flags().Lookup("data") != nil {
		command.Must(c.MarkFlagDirname("data"))
	}
	command.Must(c.MarkFlagFilename("config", "toml"))
}

// progressEvery is how often a line of progress is drawn anew.
const progressEvery = 100 * time.Millisecond

// progress shows how far something is: as one line that changes on a terminal, as a line a step elsewhere.
type progress struct {
	out         *terminal.Output
	what        string
	done, total int64
	drawn       time.Time
	// open says that the line is not ended, and stale that there is more to say than it does.
	open, stale bool
}

func newProgress(stderr *os.File) *progress { return &progress{out: terminal.New(stderr)} }

// tell is told of a step, and of how many bytes of it are done; a total of 0 is not known.
func (p *progress) tell(what string, done, total int64) {
	fresh := what != p.what
	if fresh {
		p.end()
	}
	p.what, p.done, p.total, p.stale = what, done, total, true
	switch {
	case p.out.Interactive && (fresh || time.Since(p.drawn) >= progressEvery):
		p.draw()
	case fresh && !p.out.Interactive:
		p.out.Printf("%s …\n", what)
	}
}

// draw writes over the line. The spaces are for one that was longer.
func (p *progress) draw() {
	p.drawn, p.open, p.stale = time.Now(), true, false
	if p.total == 0 {
		p.out.Printf("\r%s …", p.what)
		return
	}
	p.out.Printf("\r%s … %3d %% of %s   ", p.what, min(p.done*100/p.total, 100), size(p.total))
}

// end ends the line, with what was told last.
func (p *progress) end() {
	if !p.open {
		return
	}
	if p.stale {
		p.draw()
	}
	p.open = false
	p.out.Printf("\n")
}

// size is a number of bytes for a person.
func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d KiB", (n+1023)>>10)
}
