package daemon

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/adapter/binaries"
	"github.com/runlot/runlot/internal/adapter/workerd"
	"github.com/runlot/runlot/internal/config/source"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/caps"
	"github.com/runlot/runlot/internal/daemon/crons"
	"github.com/runlot/runlot/internal/daemon/node"
	"github.com/runlot/runlot/internal/engine/dispatch"
	"github.com/runlot/runlot/internal/engine/schedule"
)

// Options say what to run and where.
type Options struct {
	// Dirs are the project folders, one app each.
	Dirs []string
	// Config and Env choose the configuration file and the wrangler environment where a folder leaves a choice; they are
	// for a single app only.
	Config string
	Env    string
	// State is the folder that holds everything that lasts: the embedded PostgreSQL and its passwords.
	State string
	// Host and Port are where the first app listens; each further app takes the next port.
	Host string
	Port int
	// DatabaseURLs are PostgreSQL servers of the user's own by database name; the name "" stands for any database. A
	// database without one is kept in the embedded PostgreSQL.
	DatabaseURLs map[string]string
	// Caps bound the databases.
	Caps caps.Settings
	// Store, when set, opens the store of a database in place of PostgreSQL's, so that a benchmark can tell what PostgreSQL
	// costs in the same wiring.
	Store func(ctx context.Context, database string) (Store, error)
	// Clean deletes the state folder first.
	Clean bool
	// Watch rebuilds an app when its files change.
	Watch bool
	// Requests are paths of the first app that are requested once, when it is live.
	Requests []string
	// AllowPrivate lets Workers reach private addresses too.
	AllowPrivate bool
	// Colour lets build errors come with colours.
	Colour bool
	// Log takes what operators need to know of the parts.
	Log *slog.Logger
	// Observer is told what happens.
	Observer Observer
}

// maxPort is the last TCP port.
const maxPort = 65_535

// check refuses what makes no sense before anything is made.
func (o *Options) check() error {
	for _, dir := range o.Dirs {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return fault.New(fault.Invalid, "not_a_folder", "%s is not a folder", dir).
				WithHint("name the folder that holds runlot.json or wrangler.json")
		}
	}
	last := o.Port
	if o.Port != 0 {
		last += len(o.Dirs) - 1
	}
	switch {
	case o.Port < 0 || o.Port > maxPort:
		return fault.New(fault.Invalid, "port_invalid", "port %d does not exist", o.Port).WithHint("give --port 1 to %d, or 0 for a free one", maxPort)
	case last > maxPort:
		return fault.New(fault.Invalid, "port_invalid", "%d projects from port %d on need port %d, which does not exist", len(o.Dirs), o.Port, last).
			WithHint("begin at a lower port, or let --port 0 pick free ones")
	}
	return nil
}

// unused refuses settings for a database that no project has: its name is misspelt.
func (o *Options) unused(builds []*build) error {
	var databases []string
	for _, b := range builds {
		if name := b.manifest.Database; name != "" && !slices.Contains(databases, name) {
			databases = append(databases, name)
		}
	}
	for flag, names := range map[string][]string{
		"database-url": slices.Collect(maps.Keys(o.DatabaseURLs)), "queue-ops-cap": slices.Collect(maps.Keys(o.Caps.Operations)),
		"database-size-cap": slices.Collect(maps.Keys(o.Caps.Sizes)),
	} {
		for _, name := range names {
			if name == "" || slices.Contains(databases, name) {
				continue
			}
			known := "no project here has a database"
			if len(databases) > 0 {
				known = "the projects here have " + strings.Join(databases, ", ")
			}
			return fault.New(fault.Invalid, "database_unused", "--%s names the database %s, which no project has", flag, name).WithHint("%s", known)
		}
	}
	return nil
}

// What an Observer and the commands are given, under the daemon's own names.
type (
	// Record is how one batch ended.
	Record = dispatch.Record
	// CronRun is how one scheduled run ended.
	CronRun = schedule.Record
	// Line is one line that a Worker logged.
	Line = workerd.Line
	// Versions are those of the parts.
	Versions = binaries.Versions
	// Store is a store that holds connections.
	Store = node.Store
)

// searched are the folders from which on the programs are looked for.
func (o *Options) searched() []string { return append(slices.Clone(o.Dirs), ".") }

// stopTime is how long requests and batches in flight may finish at the stop: short where a person waits for it.
func (o *Options) stopTime() time.Duration {
	if o.Watch {
		return queue.DevStopTime
	}
	return queue.DrainTime
}

// nodeEnv is what process.env.NODE_ENV says in the apps.
func (o *Options) nodeEnv() string {
	if o.Watch {
		return "development"
	}
	return "production"
}

// Observer is told what happens, in words for a person. Its methods are called from several goroutines and must not
// block for long.
type Observer interface {
	node.Observer
	// Started is called once, when every app is live and every queue is delivered.
	Started(summary *Summary)
	// Warnings are what the configuration, the build or the handlers made the product notice about an app.
	Warnings(app string, warnings []source.Diagnostic)
	// Live is called when a version takes over. Reload is false for the first one.
	Live(app, version string, took time.Duration, reload bool)
	// Failed is called when a changed app could not go live; what ran before goes on.
	Failed(app string, err error)
	// Stopping is called once, when the stop begins.
	Stopping()
}

// Summary is what runs.
type Summary struct {
	Apps   []AppSummary
	Queues []QueueSummary
	// Workerd is the version of the programs; "" when it could not be asked for.
	Workerd string
	// Postgres are the versions of the servers in use, "18.4" or "18.4 and 15.14"; "" when no app has a database.
	Postgres string
	State    string
	Took     time.Duration
}

// AppSummary is one app.
type AppSummary struct {
	Name    string
	Dir     string
	File    string
	Version string
	URL     string
	// Stores are the app's D1 databases and other stores, as "D1 database env.BINDING → name".
	Stores []string
	// Crons are when its scheduled handler runs.
	Crons []crons.Next
}

// QueueSummary is one queue of one database.
type QueueSummary struct {
	Database string
	Name     string
	// Producers are "app: env.BINDING" for each binding that sends to it.
	Producers []string
	// App drains it by Consumer; Consumer is nil when no app does.
	App      string
	Consumer *queue.Consumer
	// DeadLettersOf are the queues whose dead letters it takes.
	DeadLettersOf []string
	// Waiting is the number of unsettled messages; -1 when they are still being counted.
	Waiting int64
}
