// Package queues is the commands about queues, messages and batches: a file for each kind of them.
package queues

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/cli/remote"
	"github.com/runlot/runlot/internal/core/fault"
)

// choice says which database a command is about.
type choice struct{ app, database, server string }

func (f *choice) flags(c *cobra.Command) {
	c.Flags().StringVar(&f.app, "app", "", "the queues that this `APP` names (default: those of\nthis folder's project)")
	c.Flags().StringVar(&f.database, "database", "", "the queues of this `DATABASE`")
	remote.ServerFlag(c, &f.server)
}

// list returns the queues that the flags choose: those of a database, of an app, of the project in this folder, or all.
func (f *choice) list(ctx context.Context, api *client.Client) ([]client.Queue, error) {
	all, err := api.Queues(ctx, f.app)
	if err != nil {
		return nil, err
	}
	database := f.database
	if database == "" && f.app == "" {
		database = folderDatabase(all)
	}
	if database == "" {
		return all, nil
	}
	return slices.DeleteFunc(all, func(q client.Queue) bool { return q.Database != database }), nil
}

// folderDatabase is the database of the project in this folder; "" when there is none, or it is not deployed there.
func folderDatabase(all []client.Queue) string {
	database := remote.FolderDatabase()
	if !slices.ContainsFunc(all, func(q client.Queue) bool { return q.Database == database }) {
		return ""
	}
	return database
}

// queue finds a queue by its name. Fault: NotFound (queue_unknown), Invalid (queue_ambiguous).
func (f *choice) queue(ctx context.Context, api *client.Client, name string) (*client.Queue, error) {
	list, err := f.list(ctx, api)
	if err != nil {
		return nil, err
	}
	var names, databases []string
	var found *client.Queue
	for i := range list {
		if list[i].Name == name {
			found = &list[i]
			databases = append(databases, list[i].Database)
		}
		names = append(names, list[i].Name)
	}
	switch {
	case len(databases) > 1:
		return nil, fault.New(fault.Invalid, "queue_ambiguous", "the databases %s have a queue %s each", strings.Join(databases, ", "), name).
			WithHint("name one with --database")
	case found != nil:
		return found, nil
	case len(names) == 0:
		return nil, fault.New(fault.NotFound, "queue_unknown", "there is no queue %q: no deployed app names any", name).
			WithHint("declare it in the app's configuration and deploy")
	}
	slices.Sort(names)
	return nil, fault.New(fault.NotFound, "queue_unknown", "there is no queue %q", name).
		WithHint("there are %s", strings.Join(slices.Compact(names), ", "))
}

// open connects and finds a queue.
func (f *choice) open(ctx context.Context, name string) (*client.Client, *client.Queue, error) {
	api, err := remote.Connect(ctx, f.server)
	if err != nil {
		return nil, nil, err
	}
	q, err := f.queue(ctx, api, name)
	return api, q, err
}

// wait waits until the next look, or until ctx ends; then it is false.
func wait(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Flags implements bulk.Chooser.
func (f *choice) Flags(c *cobra.Command) { f.flags(c) }

// Open implements bulk.Chooser.
func (f *choice) Open(ctx context.Context, name string) (*client.Client, *client.Queue, error) {
	return f.open(ctx, name)
}

// Connect implements bulk.Chooser.
func (f *choice) Connect(ctx context.Context) (api *client.Client, database string, err error) {
	api, filter, err := f.filter(ctx, nil)
	if err != nil {
		return nil, "", err
	}
	return api, filter.Database, nil
}
