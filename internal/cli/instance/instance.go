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
	command.Must(c.MarkFlagDirname("data"))
	command.Must(c.MarkFlagFilename("config", "toml"))
}

// progressEvery is how often a line of progress is drawn anew.
const progressEvery = 100 * time.Millisecond

// progress shows how far something is: as one line that changes on a terminal, as a line a step elsewhere.
type progress struct {
	out   *terminal.Output
	what  string
	drawn time.Time
	open  bool
}

func newProgress(stderr *os.File) *progress { return &progress{out: terminal.New(stderr)} }

// tell is told of a step, and of how many bytes of it are done; a total of 0 is not known.
func (p *progress) tell(what string, done, total int64) {
	fresh := what != p.what
	p.what = what
	if !p.out.Interactive {
		if fresh {
			p.out.Printf("%s …\n", what)
		}
		return
	}
	if !fresh && done < total && time.Since(p.drawn) < progressEvery {
		return
	}
	p.drawn = time.Now()
	if fresh {
		p.end()
	}
	p.open = true
	if total == 0 {
		p.out.Printf("\r%s …", what)
		return
	}
	p.out.Printf("\r%s … %3d %% of %s", what, min(done*100/total, 100), size(total))
}

// end ends the line.
func (p *progress) end() {
	if p.open {
		p.out.Printf("\n")
	}
	p.open = false
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
