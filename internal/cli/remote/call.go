package remote

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/terminal"
)

// call is one run of a command that talks to a celld.
type call struct {
	*cobra.Command

	api *client.Client
	// app is the app that the command is about; "" for one about the instance.
	app   string
	given []string
}

// say writes a line of what was done.
func (c *call) say(format string, args ...any) error {
	_, err := fmt.Fprintf(command.Stdout(c.Command), format+"\n", args...)
	return err
}

// table writes rows under a header, and hint, on the other stream, where there are none.
func (c *call) table(header []string, rows [][]terminal.Cell, hint string) error {
	if len(rows) == 0 {
		terminal.New(command.Stderr(c.Command)).Printf("%s\n", hint)
		return nil
	}
	terminal.New(command.Stdout(c.Command)).Table(header, rows)
	return nil
}

// narrow reports whether a person reads on a terminal on which a table of many columns has no room.
func (c *call) narrow() bool {
	const room = 100
	out := terminal.New(command.Stdout(c.Command))
	return out.Interactive && out.Width() < room
}

// scoped is what a command is about.
type scoped bool

const (
	// ofInstance is a command about a celld as a whole, ofApp one about an app: the one of --app, or that of the folder.
	ofInstance scoped = false
	ofApp      scoped = true
)

// talks makes c a command that talks to a celld, with the flags that say to which one, and about which app.
func talks(c *cobra.Command, about scoped, run func(*call) error) *cobra.Command {
	var p project
	if about == ofApp {
		p.flags(c)
	} else {
		serverFlag(c, &p.server)
	}
	c.RunE = func(c *cobra.Command, given []string) error {
		one := &call{Command: c, given: given}
		var err error
		if one.api, err = connect(p.server); err != nil {
			return err
		}
		if about == ofApp {
			if one.app, err = p.name(); err != nil {
				return err
			}
		}
		return run(one)
	}
	return c
}

// asks is talks for a command that asks for something and shows it: to a person or, with --json, to a program.
func asks[T any](c *cobra.Command, about scoped, ask func(*call) (T, error), show func(*call, T) error) *cobra.Command {
	var asJSON bool
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return talks(c, about, func(c *call) error {
		answer, err := ask(c)
		if err != nil {
			return err
		}
		if asJSON {
			return command.JSON(c.Command, answer)
		}
		return show(c, answer)
	})
}
