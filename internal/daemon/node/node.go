package node

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/adapter/postgres"
	"github.com/runlot/runlot/internal/adapter/workerd"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/trace"
	"github.com/runlot/runlot/internal/daemon/caps"
	"github.com/runlot/runlot/internal/daemon/claims"
	"github.com/runlot/runlot/internal/daemon/crons"
	"github.com/runlot/runlot/internal/daemon/d1"
	"github.com/runlot/runlot/internal/daemon/history"
	"github.com/runlot/runlot/internal/daemon/inorder"
	"github.com/runlot/runlot/internal/daemon/kv"
	"github.com/runlot/runlot/internal/daemon/numbers"
	"github.com/runlot/runlot/internal/daemon/outsiders"
	"github.com/runlot/runlot/internal/daemon/r2"
	"github.com/runlot/runlot/internal/daemon/servers"
	"github.com/runlot/runlot/internal/daemon/starts"
	"github.com/runlot/runlot/internal/daemon/tracing"
	"github.com/runlot/runlot/internal/daemon/witness"
	"github.com/runlot/runlot/internal/engine/broker/store"
	"github.com/runlot/runlot/internal/engine/dispatch"
	"github.com/runlot/runlot/internal/engine/ledger"
	"github.com/runlot/runlot/internal/engine/schedule"
	"github.com/runlot/runlot/internal/engine/series"
	"github.com/runlot/runlot/internal/engine/tail"
	"github.com/runlot/runlot/internal/server/binding"
)

// Observer is told what happens. Its methods are called from several goroutines and must not block for long.
type Observer interface {
	dispatch.Recorder
	schedule.Recorder
	// Progress names a step of the start that takes time.
	Progress(step string)
	// Down is called when an app's process ended by itself; it is started again with growing pauses.
	Down(app, reason string)
	// Line is one line that a Worker logged.
	Line(app string, line *workerd.Line)
	// Notice is anything else worth a line.
	Notice(text string)
}

// Store is a store that holds connections.
type Store interface {
	store.Store
	// Records is where the history of the batches is kept.
	Records() ledger.Store
	// Series is where the series of the queues are kept; nil keeps them in memory alone.
	Series() series.Store
	Close(ctx context.Context) error
}

// Options are what a Node needs; all fields but DatabaseURLs, Caps, Store and Facts are required.
type Options struct {
	// Workerd is the program, and Postgres finds the PostgreSQL build, which is asked for when it is needed.
	Workerd  string
	Postgres func() (string, error)
	// State is the state folder, absolute, which the caller has locked.
	State string
	// DatabaseURLs are PostgreSQL servers of the user's own by database name; the name "" stands for any database. A
	// database without one is kept in the embedded PostgreSQL.
	DatabaseURLs map[string]string
	// Caps bound the databases.
	Caps caps.Settings
	// R2 is the S3 store of R2 buckets; nil keeps them in the state folder.
	R2 *r2.Store
	// Store, when set, opens the store of a database in place of PostgreSQL's.
	Store func(ctx context.Context, database string) (Store, error)
	// AllowPrivate lets Workers reach private addresses too.
	AllowPrivate bool
	// Develop shows errors to clients.
	Develop bool
	// StopTime is how long requests and batches in flight may finish at a stop.
	StopTime time.Duration
	// Tracer makes spans; nil makes none.
	Tracer   trace.Tracer
	Log      *slog.Logger
	Observer Observer
	// Facts, when set, is told what notifications are made of.
	Facts witness.Facts
	// Tails, when set, takes the invocations of apps that somebody follows.
	Tails *tail.Hub
}

// Node is what the apps of one machine share.
type Node struct {
	o       Options
	runtime *workerd.Runtime
	servers *servers.Servers
	d1      *d1.Databases
	kv      *kv.Namespaces
	r2      *r2.Buckets
	crons   *crons.Keeper
	gate    *binding.Gate
	budget  *dispatch.Budget
	tracing *tracing.Tracing
	// records takes how batches ended; while one develops, it brings that behind their logs.
	records dispatch.Recorder
	// runs counts the scheduled runs on their way to the observer.
	runs    *numbers.Runs
	inOrder *inorder.Recorder // nil otherwise
	// databases are started outside of mu: one that another node holds takes its time to fail.
	databases *starts.Group[*database]
	// claims are those of the apps to queues.
	claims *claims.Claims[*App]

	mu         sync.Mutex
	isolations map[string]*dispatch.Isolation // by app; guarded by mu
	uses       map[*App]*app.Manifest         // what each app runs; guarded by mu
}

// New returns a node on which nothing runs yet. The caller stops it after its apps.
func New(o Options) *Node {
	n := &Node{
		o: o, runtime: workerd.New(o.Workerd, o.Log), gate: binding.NewGate(), d1: d1.New(o.State, o.Caps.D1, o.Log), kv: kv.New(o.State, o.Log), budget: dispatch.NewBudget(queue.DispatchBytes),
		isolations: map[string]*dispatch.Isolation{}, databases: starts.New[*database](), claims: claims.New[*App](), uses: map[*App]*app.Manifest{},
	}
	if o.Tracer == nil {
		o.Tracer = trace.None
	}
	n.tracing = tracing.New(o.Tracer)
	n.r2 = r2.New(o.State, o.R2, func(ctx context.Context, database, queueName string, drafts []queue.Draft) error {
		return outsiders.Send(ctx, n, database, queueName, drafts)
	}, o.Log)
	n.records = o.Observer
	if o.Develop {
		n.inOrder = inorder.New(o.Observer)
		n.records = n.inOrder
	}
	n.servers = servers.New(servers.Options{
		Install: o.Postgres, Dir: o.State, URLs: o.DatabaseURLs, Log: o.Log, Progress: o.Observer.Progress, Notice: o.Observer.Notice,
	})
	n.runs = numbers.CountRuns(o.Observer)
	scheduled := crons.Options{Recorder: n.runs, Log: o.Log}
	if o.Store == nil {
		scheduled.URL = n.DatabaseURL
	}
	n.crons = crons.New(scheduled)
	return n
}

// Stop ends the databases. Twice is fine.
func (n *Node) Stop() {
	databases := n.databases.Close()
	n.crons.Close()
	for _, db := range databases {
		db.Stop()
	}
	n.d1.Close()
	n.kv.Close()
	n.r2.Close()
	n.servers.Stop()
	if n.inOrder != nil {
		n.inOrder.Flush()
	}
}

// PostgresVersions are those of the servers in use, for a person; "" when no app has a database.
func (n *Node) PostgresVersions() string { return n.servers.InUse() }

// Runtime starts processes, and probes.
func (n *Node) Runtime() *workerd.Runtime { return n.runtime }

// D1 are the node's D1 databases.
func (n *Node) D1() *d1.Databases { return n.d1 }

// KV are the node's KV namespaces.
func (n *Node) KV() *kv.Namespaces { return n.kv }

// R2 are the node's R2 buckets.
func (n *Node) R2() *r2.Buckets { return n.r2 }

// ControlURL is how the database of what is known of the apps is reached.
func (n *Node) ControlURL(ctx context.Context) (string, error) { return n.servers.Control(ctx) }

// databaseOf returns the app's database, opened if it has to be; nil when the app has none.
func (n *Node) databaseOf(ctx context.Context, m *app.Manifest) (*database, error) {
	if m.Database == "" {
		return nil, nil //nolint:nilnil // an app without queues has no database, and that is no error
	}
	db, err := n.databases.Get(ctx, m.Database, func(ctx context.Context) (*database, error) {
		db := newDatabase(m.Database, n.o.Log, n.o.Observer.Notice, n.opener(m.Database))
		db.told = n.o.Facts
		db.space = n.o.Caps.Space(m.Database, n.servers.Free(m.Database))
		db.daily = n.o.Caps.Daily(m.Database, []queue.Dialect{m.Dialect})
		if err := db.Start(ctx); err != nil {
			return nil, err
		}
		return db, nil
	})
	if errors.Is(err, starts.ErrClosed) || errors.Is(err, starts.ErrGaveUp) {
		return nil, fault.New(fault.Unavailable, queue.CodeOverloaded, "the database %s is not in use yet", m.Database).WithHint("try again").WithCause(err)
	}
	return db, err
}

// opener returns what opens the store of a database. The embedded server may have moved after a restart, and one of the
// user's may have changed, so that it is asked for and judged each time.
func (n *Node) opener(name string) func(context.Context) (Store, workerd.Database, error) {
	if n.o.Store != nil {
		return func(ctx context.Context) (Store, workerd.Database, error) {
			store, err := n.o.Store(ctx, name)
			return store, workerd.Database{}, err
		}
	}
	return func(ctx context.Context) (Store, workerd.Database, error) {
		a, err := n.servers.Open(ctx, name)
		if err != nil {
			return nil, workerd.Database{}, err
		}
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		store, err := history.Open(ctx, postgres.Options{URL: a.URL, AppRole: a.AppRole, Node: host, Log: n.o.Log})
		if err != nil {
			return nil, workerd.Database{}, err
		}
		return store, a.App, nil
	}
}

// isolation returns what the queues of an app share to find a message that kills its process.
func (n *Node) isolation(appName string) *dispatch.Isolation {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.isolations[appName] == nil {
		n.isolations[appName] = dispatch.NewIsolation()
	}
	return n.isolations[appName]
}

// Waiting is the number of unsettled messages of a queue; -1 when they are not counted before ctx ends.
func (n *Node) Waiting(ctx context.Context, databaseName, queueName string) int64 {
	db, ok := n.databases.Find(databaseName)
	if !ok {
		return -1
	}
	return db.Waiting(ctx, queueName)
}

// Claimable refuses a manifest that consumes a queue which another app than the one of its name consumes already.
func (n *Node) Claimable(m *app.Manifest) error {
	return n.claims.Claimable(m, func(holder *App) bool { return holder.Name() == m.Name })
}

// release gives up the queues that a holds and that the version it runs does not consume.
func (n *Node) release(a *App, runs *Version) {
	if runs == nil {
		runs = &Version{}
	}
	n.claims.Release(a, runs.Manifest)
}
