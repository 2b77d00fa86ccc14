// Package conformance_test holds the product to its rules through its own doors: Workers in testdata run on the real
// workerd and a real PostgreSQL under a daemon, are driven by HTTP requests and SQL, and are judged by what their handlers
// logged, by the records of their batches and by what is left in the database.
//
// A rule is a testCase. Its check is tested too: each named wrong behaviour, applied to what was observed, has to fail it.
package conformance_test

import (
	"context"
	"encoding/json"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/daemon"
)

// patience bounds each wait for an event. It is generous: waits end when the event comes.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	flag.Parse()
	// The cases spend their time waiting for timers of the product, so that far more of them than there are cores can run
	// side by side. A number on the command line wins.
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		_ = flag.Set("test.parallel", "100")
	}
	os.Exit(clustertest.Main(m).Run())
}

// house is the running product: two daemons and the doors to them.
type house struct {
	// development is a daemon as "runlot dev" starts it, on databases of the test's PostgreSQL: it watches its files and lets
	// Workers reach private addresses.
	development *node
	// production is a daemon as "celld" starts it, with its embedded PostgreSQL.
	production *node
	gate       *gate
	// databases are those of the development daemon, by name.
	databases map[string]*pgxpool.Pool
}

// node is one daemon.
type node struct {
	*collector
	// dir holds a copy of each fixture.
	dir string
	// outside says that nothing is known but what handlers and producers see.
	outside bool
}

// developmentApps and productionApps are the fixtures of the two daemons.
var (
	developmentApps = []string{
		"plan", "runlot", "send", "types", "entrypoint", "serviceworker", "poison", "crash", "loop", "reload", "late", "outbound",
		"nowait", "named", "backoff", "letters", "spin", "mire", "rival", "pretender", "leaver", "jobs", "api", "stalled",
		"capped", "small", "d1", "d1script", "kv", "objects", "r2",
		"cron", "cronwait", "cronscript", "croncrash", "cronless",
	}
	productionApps = []string{"database", "outbound", "cronproduction"}
)

// open starts both daemons and returns when every app is live.
func open(t *testing.T) *house {
	t.Helper()
	h := &house{gate: newGate(t), databases: map[string]*pgxpool.Pool{}}
	urls := map[string]string{}
	for _, name := range []string{"default", "send", "stalled", "capped", "small"} {
		access := clustertest.NewDatabase(t)
		urls[name] = access.OwnerURL()
		pool, err := pgxpool.New(t.Context(), urls[name])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		h.databases[name] = pool
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		h.development = start(t, h.gate, developmentApps, daemon.Options{DatabaseURLs: urls, Caps: capSettings, AllowPrivate: true, Watch: true})
	})
	wg.Go(func() {
		h.production = start(t, h.gate, productionApps, daemon.Options{})
	})
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return h
}

// start runs a daemon until the end of the test. It fails the test, and returns nil, when the daemon does not start.
func start(t *testing.T, g *gate, apps []string, o daemon.Options) *node {
	t.Helper()
	n := &node{collector: newCollector(), dir: t.TempDir()}
	// The PostgreSQL of a root process runs as another user and has to pass through.
	if err := os.Chmod(filepath.Dir(n.dir), 0o755); err != nil {
		t.Error(err)
	}
	modules, err := filepath.Abs("../../node_modules")
	if err != nil {
		t.Error(err)
	}
	if err := os.Symlink(modules, filepath.Join(n.dir, "node_modules")); err != nil {
		t.Error(err)
	}
	for _, app := range apps {
		dir := filepath.Join(n.dir, app)
		if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", app))); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(filepath.Join(dir, ".dev.vars"), []byte("GATE="+g.url+"\n"), 0o600); err != nil {
			t.Error(err)
		}
		o.Dirs = append(o.Dirs, dir)
	}
	o.State = filepath.Join(n.dir, "state")
	o.Host = "127.0.0.1"
	o.Observer = n.collector
	o.Log = slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- daemon.Run(ctx, o) }()
	t.Cleanup(func() {
		g.openAll()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the daemon ends with %v", err)
		}
	})
	deadline := time.After(2 * patience)
	for {
		changed := n.changes()
		if n.ready() {
			return n
		}
		select {
		case <-changed:
		case err := <-ended:
			t.Errorf("the daemon does not start: %v", err)
			ended <- nil
			return nil
		case <-deadline:
			t.Error("the daemon does not start in time")
			return nil
		}
	}
}

// testCase is one rule of the product and how it is shown.
type testCase struct {
	id string
	// rule is what has to hold; source is where it is written.
	rule, source string
	// app is the fixture, queues those that are observed.
	app    string
	queues []string
	// production chooses the production daemon.
	production bool
	// unlogged keeps batches whose handlers' logs may be lost with their process.
	unlogged bool
	// drive sets the app to work and waits for what is to be observed.
	drive func(r *run)
	// check returns an error when the observation breaks the rule.
	check func(o *observation) error
	// wrong are behaviours that break the rule: applied to the observation, each has to fail the check.
	wrong []wrong
}

type wrong struct {
	name  string
	apply func(o *observation)
}

// The documents that rules are taken from. Behind the name stands the section or page, after a comma.
const (
	runlotPage   = "Runlot document"
	celldPage    = "celld document"
	cloudflare   = "Cloudflare Queues docs"
	workersFlags = "Workers docs, Compatibility flags"
	guarantees   = "GUARANTEES.md"
	limits       = "LIMITS.md"
)

func cases() []testCase {
	return slices.Concat(settleCases(), retryCases(), sendCases(), typeCases(), batchCases(), lossCases(), sqlCases(), d1Cases(), kvCases(), objectCases(), r2Cases(), recordCases(), capCases(),
		sequenceCases(), deathCases(), boundCases(), sharingCases(), cronCases())
}

func TestConformance(t *testing.T) {
	all := cases()
	if len(all) < 40 {
		t.Fatalf("%d cases; did a list go missing?", len(all))
	}
	t.Log(catalogue(all))
	h := open(t)
	results := &verdicts{}
	t.Run("case", func(t *testing.T) {
		for i := range all {
			c := &all[i]
			t.Run(c.id, func(t *testing.T) {
				t.Parallel()
				defer func() { results.keep(c.id, !t.Failed()) }()
				conform(t, h, c)
			})
		}
	})
	t.Run("records", func(t *testing.T) { everyBatchIsKept(t, h) })
	if *summarize {
		results.print(all)
	}
}

// conform runs one case.
func conform(t *testing.T, h *house, c *testCase) {
	n := h.development
	if c.production {
		n = h.production
	}
	r := &run{TB: t, house: h, node: n, c: c, o: &observation{}}
	c.drive(r)
	r.observe()
	if err := c.check(r.o); err != nil {
		t.Errorf("%s (%s)\n%v\nobserved:\n%s", c.rule, c.source, err, r.o)
		return
	}
	for _, w := range c.wrong {
		o := r.o.clone(t)
		w.apply(o)
		if o.String() == r.o.String() {
			t.Errorf("the wrong behaviour %q changes nothing in what was observed", w.name)
		}
		if c.check(o) == nil {
			t.Errorf("the check accepts the wrong behaviour %q:\n%s", w.name, o)
		}
	}
}

// compact is JSON without spaces.
func compact(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return string(b)
}
