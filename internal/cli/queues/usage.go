package queues

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/remote"
	"github.com/runlot/runlot/internal/cli/terminal"
)

// used is what one database has used, for a program.
type used struct {
	*client.Usage

	// Messages and Bytes are what its queues hold now; -1 is not known.
	Messages int64 `json:"messages"`
	Bytes    int64 `json:"bytes"`
}

func usage() *cobra.Command {
	var f choice
	var asJSON bool
	c := &cobra.Command{
		Use:   "usage",
		Short: "Show the operations of a database, and what its queues hold",
		Long: `usage shows how many operations the queues of a database have used, by day in
UTC, against its daily cap, and what its messages take up now. An operation is
each started 64,000 bytes of a message written, delivered or deleted. Beyond the
cap sends fail until the next day; deliveries go on.`,
		Example: "  runlot queue usage\n  runlot queue usage --database shop --json",
		Args:    command.Args(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := remote.Connect(c.Context(), f.server)
			if err != nil {
				return err
			}
			list, err := f.list(c.Context(), api)
			if err != nil {
				return err
			}
			all := usedBy(list)
			for _, u := range all {
				if u.Usage, err = api.Usage(c.Context(), u.Database); err != nil {
					return err
				}
			}
			if asJSON {
				return command.JSON(c, all)
			}
			if len(all) == 0 {
				terminal.New(command.Stderr(c)).Printf("There are no queues; an app that is deployed brings its own.\n")
			}
			for i, u := range all {
				if i > 0 {
					fmt.Fprintln(command.Stdout(c))
				}
				showUsage(terminal.New(command.Stdout(c)), u)
			}
			return nil
		},
	}
	f.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

// usedBy adds up what the queues of each database hold.
func usedBy(list []client.Queue) []*used {
	all := []*used{}
	byName := map[string]*used{}
	for i := range list {
		q := &list[i]
		u := byName[q.Database]
		if u == nil {
			u = &used{Usage: &client.Usage{Database: q.Database}}
			byName[q.Database] = u
			all = append(all, u)
		}
		u.Messages, u.Bytes = plus(u.Messages, q.Unsettled), plus(u.Bytes, q.Bytes)
	}
	return all
}

// plus adds numbers of which one that is negative is not known.
func plus(a, b int64) int64 {
	if a < 0 || b < 0 {
		return -1
	}
	return a + b
}

func showUsage(out *terminal.Output, u *used) {
	today := int64(0)
	if len(u.Days) > 0 {
		today = u.Days[0].Total
	}
	text, style := terminal.Count(today)+" operations today, without a cap", terminal.Normal
	if u.Cap > 0 {
		percent := min(today*100/u.Cap, 100)
		text = fmt.Sprintf("%s of %s operations today, %d %%", terminal.Count(today), terminal.Count(u.Cap), percent)
		const near = 80
		switch {
		case percent >= 100:
			style = terminal.Red
		case percent >= near:
			style = terminal.Yellow
		}
	}
	held := []string{out.Paint(style, text)}
	if u.Messages >= 0 && u.Bytes >= 0 {
		held = append(held, fmt.Sprintf("%s stored, %s", plural(u.Messages), remote.Size(u.Bytes)))
	}
	out.Printf("%s  %s\n", out.Paint(terminal.Bold, u.Database), strings.Join(held, " · "))
	rows := make([][]terminal.Cell, 0, len(u.Days))
	for _, d := range u.Days {
		rows = append(rows, remote.Cells(d.Day, terminal.Count(d.Written), terminal.Count(d.Delivered), terminal.Count(d.Deleted), terminal.Count(d.Total)))
	}
	if len(rows) > 0 {
		out.Table([]string{"DAY", "WRITTEN", "DELIVERED", "DELETED", "OPERATIONS"}, rows)
	}
}
