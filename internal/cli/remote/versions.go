package remote

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/span"
)

// Versions lists what was uploaded.
func Versions() *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use:     "versions",
		Short:   "List the versions of an app",
		Example: "  runlot versions\n  runlot versions --app my-app --limit 50",
		Args:    command.Args(0, 0, ""),
	}
	c.Flags().IntVar(&limit, "limit", 20, "at most `N`, the newest")
	return asks(c, ofApp, func(c *call) ([]client.Version, error) {
		if limit < 1 {
			return nil, command.Usage("--limit takes a number of 1 or more, not %d", limit)
		}
		list, err := c.api.Versions(c.Context(), c.app, 0, limit)
		if err == nil && len(list) == 0 {
			_, err = c.api.App(c.Context(), c.app) // is there none of the name?
		}
		return list, err
	}, func(c *call, versions []client.Version) error {
		rows := make([][]terminal.Cell, 0, len(versions))
		for i := range versions {
			v := &versions[i]
			live := terminal.Cell{}
			if v.Live {
				live = terminal.Cell{Text: "live", Style: terminal.Green}
			}
			row := cells(strconv.Itoa(v.Number), "", v.ID, ago(v.Created), v.Author, v.Message)
			row[1] = live
			rows = append(rows, row)
		}
		header := []string{"VERSION", "", "ID", "UPLOADED", "BY", "MESSAGE"}
		if c.narrow() { // the number is enough to name a version
			const id = 2
			header = slices.Delete(header, id, id+1)
			for i := range rows {
				rows[i] = slices.Delete(rows[i], id, id+1)
			}
		}
		return c.table(header, rows, c.app+" has no versions.")
	})
}

// Rollback makes an earlier version live.
func Rollback() *cobra.Command {
	var message string
	var began time.Time
	c := &cobra.Command{
		Use:   "rollback [VERSION]",
		Short: "Make an earlier version live again",
		Long: `rollback makes VERSION live, a number or an id of runlot versions; without one
it is the version that was live before. The version's queues come back with it:
consumers that it does not have stop, and their messages stay: it says how many.`,
		Example: "  runlot rollback\n  runlot rollback 12 --message \"12 was fine\"",
		Args:    command.Args(0, 1, "version"),
	}
	c.Flags().StringVarP(&message, "message", "m", "", "`TEXT` that says why")
	return asks(c, ofApp, func(c *call) (*client.Deployment, error) {
		d := &client.Deploy{Rollback: true, Message: message}
		if len(c.given) > 0 {
			var err error
			if d.Version, err = versionID(c.Command, c.api, c.app, c.given[0]); err != nil {
				return nil, err
			}
		}
		began = time.Now()
		return c.api.Deploy(c.Context(), c.app, d)
	}, func(c *call, done *client.Deployment) error {
		if err := c.say("%s is back on version %d, in %s", c.app, done.Version.Number, span.Text(time.Since(began))); err != nil {
			return err
		}
		noteOrphans(c.Command, done.Removed)
		return nil
	})
}

// versionID finds a version by its number or by the beginning of its id.
func versionID(c *cobra.Command, api *client.Client, name, given string) (string, error) {
	const all = 1000
	versions, err := api.Versions(c.Context(), name, 0, all)
	if err != nil {
		return "", err
	}
	// 0 is no number of a version.
	number, _ := strconv.Atoi(strings.TrimPrefix(given, "v"))
	var found []string
	for i := range versions {
		if versions[i].Number == number || len(given) >= 8 && strings.HasPrefix(versions[i].ID, given) {
			found = append(found, versions[i].ID)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", fault.New(fault.NotFound, "version_unknown", "%s has no version %s", name, given).WithHint("`runlot versions` lists them")
	default:
		return "", fault.New(fault.Invalid, "version_ambiguous", "%d versions of %s begin with %s", len(found), name, given).WithHint("give the number")
	}
}

// Delete stops an app and forgets it.
func Delete() *cobra.Command {
	var p project
	var yes, force bool
	c := &cobra.Command{
		Use:   "delete APP",
		Short: "Stop an app and forget it",
		Long: `delete stops APP and forgets its versions, deployments and secrets. Its messages
stay in its database, where another app may consume them.

An app that others depend on is refused without --force: one that alone consumes
a queue to which another app sends, or that alone sends to one that another app
consumes.`,
		Example: "  runlot delete my-app\n  runlot delete my-app --yes --force",
		Args:    command.Args(1, 1, "name of an app"),
		RunE: func(c *cobra.Command, given []string) error {
			api, err := connect(p.server)
			if err != nil {
				return err
			}
			one, err := api.App(c.Context(), given[0])
			if err != nil {
				return err
			}
			question := fmt.Sprintf("Delete %s with all its versions and secrets?", one.Name)
			if one.Messages > 0 {
				question = fmt.Sprintf("Delete %s with all its versions and secrets? %s in its queues and will have no consumer.", one.Name, waitPlural(one.Messages))
			}
			if err := command.Confirm(c, yes, question); err != nil {
				return err
			}
			done, err := api.RemoveApp(c.Context(), one.Name, force)
			if err != nil {
				return err
			}
			if _, err = fmt.Fprintf(command.Stdout(c), "Deleted %s\n", one.Name); err != nil {
				return err
			}
			noteOrphans(c, done.Left)
			return nil
		},
	}
	serverFlag(c, &p.server)
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	c.Flags().BoolVar(&force, "force", false, "delete it also when other apps depend on it")
	return c
}
