package celld

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/runlot/runlot/internal/adapter/binaries"
	"github.com/runlot/runlot/internal/adapter/postgres/control"
	"github.com/runlot/runlot/internal/adapter/prometheus"
	"github.com/runlot/runlot/internal/adapter/sealer"
	"github.com/runlot/runlot/internal/config"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/bulk"
	"github.com/runlot/runlot/internal/daemon/celld/notices"
	"github.com/runlot/runlot/internal/daemon/d1"
	"github.com/runlot/runlot/internal/daemon/node"
	"github.com/runlot/runlot/internal/daemon/numbers"
	"github.com/runlot/runlot/internal/daemon/pulls"
	"github.com/runlot/runlot/internal/daemon/removals"
	"github.com/runlot/runlot/internal/daemon/servers"
	"github.com/runlot/runlot/internal/daemon/state"
	"github.com/runlot/runlot/internal/daemon/subscriptions"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/engine/tail"
	"github.com/runlot/runlot/internal/server/api"
	"github.com/runlot/runlot/internal/server/api/replay"
	"github.com/runlot/runlot/internal/server/cloudflare"
	"github.com/runlot/runlot/internal/server/dashboard"
	"github.com/runlot/runlot/internal/server/ingress"
)

// account is the id of the one account in Cloudflare's paths.
const account = "local"

// nodeLetters is how many random letters a node's name has.
const nodeLetters = 8

// Files in the data folder, beside those of package state.
const (
	keyFile   = "secrets.key"
	tokenFile = "admin-token"
	nodeFile  = "node"
)

// Run starts the daemon, runs until ctx ends, and stops: it takes nothing more, lets what is in flight finish within
// bounds, and leaves the rest to be delivered again.
func Run(ctx context.Context, s *Settings) error {
	data, err := filepath.Abs(s.Data)
	if err != nil {
		return err
	}
	if err := s.Notices.Check(); err != nil {
		return err
	}
	program, err := binaries.Workerd(".")
	if err != nil {
		return err
	}
	folder, err := state.Open(data, false)
	if err != nil {
		return err
	}
	defer folder.Close()
	public, operator, err := listen(ctx, s, folder)
	if err != nil {
		return err
	}
	defer public.Close()
	defer operator.Close()
	where, err := parsePattern(s.PublicURL, public.Addr())
	if err != nil {
		return err
	}
	tracer, closeTracer, err := openTracer(ctx, s)
	if err != nil {
		return err
	}
	defer closeTracer()
	seal, err := sealer.Open(filepath.Join(data, keyFile))
	if err != nil {
		return err
	}
	leaseKey, err := seal.Derive("leases of pulled messages")
	if err != nil {
		return err
	}
	buckets, err := s.store()
	if err != nil {
		return err
	}
	puller := pulls.New(leaseKey)
	defer puller.Wait()
	told, err := notices.New(&s.Notices, operator.Addr().String(), s.Version, s.Log)
	if err != nil {
		return err
	}
	facts := &subscriptions.Facts{Facts: told}
	followed := tail.New(s.Log)
	n := node.New(node.Options{
		Workerd: program, Postgres: func() (string, error) { return binaries.Postgres(".") }, State: data, DatabaseURLs: s.DatabaseURLs, Caps: s.Caps, R2: buckets,
		AllowPrivate: s.AllowPrivate, StopTime: queue.DrainTime, Tracer: tracer, Log: s.Log, Observer: &observer{s.Log, told}, Facts: facts, Tails: followed,
	})
	defer n.Stop()
	if err := n.R2().Check(ctx, s.Log); err != nil {
		return stopped(ctx, err)
	}
	store, err := control.Open(ctx, n.ControlURL)
	if err != nil {
		return stopped(ctx, err)
	}
	defer store.Close()
	told.Start(store, n)
	defer told.Stop()
	name, err := nodeName(data)
	if err != nil {
		return err
	}
	holder, err := store.Hold(ctx, name, queue.HolderPatience, s.Log)
	if err != nil {
		return stopped(ctx, err)
	}
	defer holder.Release()
	events, closeEvents := subscriptions.New(store, n, account, s.Log)
	defer closeEvents()
	facts.Tell(events)
	versions := subscriptions.Records{Store: store, Waker: events}
	f := &fleet{node: n, pattern: where, parkAfter: s.ParkAfter, log: s.Log, apps: map[string]*node.App{}, out: map[string]outside{}}
	defer f.stop()
	engine := deploy.New(deploy.Options{Store: versions, Runner: f, Sealer: seal, Log: s.Log})
	keeper := access.New(store)
	ready := Ready{Public: "http://" + public.Addr().String(), Operator: "http://" + operator.Addr().String(), Apps: where.url(placeholder)}
	if ready.TokenFile, err = firstToken(ctx, keeper, data); err != nil {
		return stopped(ctx, err)
	}
	if err := engine.Resume(ctx); err != nil {
		// What cannot run is the log's and the API's to say: the other apps do run.
		s.Log.Error("not every app could be brought back", "error", fault.Detail(err))
	}
	ready.Running = len(f.all())
	events.Start()
	defer events.Stop()
	background, err := bulk.Start(ctx, store, n, store, s.Log)
	if err != nil {
		return stopped(ctx, err)
	}
	defer background.Stop()
	remover := &removals.Remover{Node: n, Operations: background, Subscriptions: events.List}
	counted := &numbers.APICalls{}
	measured := func() *prometheus.Facts {
		known := f.facts(s.Version)
		known.Calls, known.Pools = counted.Counts(), append(known.Pools, prometheus.PoolOf(servers.ControlDatabase, "control", store.Pool()))
		return known
	}
	handler := http.NewServeMux()
	calls := api.New(api.Options{
		Deploy: engine, Versions: versions, Access: keeper, Instance: f, Queues: n, Remover: remover, Crons: n, D1: n.D1(), Compile: compile, Operations: background, Outbox: store.Outbox(), Subscriptions: events,
		Replays: replay.Options{Store: store.Replies(), Sealer: seal, Node: name}, Observe: counted.Observe, Metrics: prometheus.Handler(measured, s.Log),
		Version: s.Version, Account: account, Log: s.Log,
	})
	page := dashboard.New(dashboard.Options{API: calls, Sealer: seal, Log: s.Log})
	handler.Handle(api.Prefix, calls)
	handler.Handle(api.MetricsPath, calls)
	handler.Handle("/", page)
	dialect := cloudflare.New(cloudflare.Options{
		Deploy: engine, Versions: versions, Access: keeper, Queues: databases{n, puller, remover}, Subscriptions: events, D1: n.D1(), EncodeD1: d1.JSON, KV: n.KV(), R2: n.R2(), Compile: compile,
		Subdomain: where.subdomain(), Account: account, Tails: followed, Log: s.Log,
	})
	defer dialect.Wait()
	operators := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, cloudflare.Prefix+"/") {
			dialect.ServeHTTP(w, r) // past the mux, which would clean paths that end with the key of an object
			return
		}
		handler.ServeHTTP(w, r)
	})
	return serve(ctx, s, &doors{public: public, operator: operator, fleet: f, operators: operators, page: page, engine: engine, pulls: puller, dialect: dialect, holder: holder}, ready)
}

// nodeName names the celld of a data folder among those that know of the same database: for a person, with what tells it from
// one of an equal name.
func nodeName(data string) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	path := filepath.Join(data, nodeFile)
	id, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		id = []byte(rand.Text()[:nodeLetters] + "\n")
		err = os.WriteFile(path, id, 0o600)
	}
	if err != nil {
		return "", fault.New(fault.Environment, "data_unusable", "the name of this node in %s cannot be read or written", path).WithCause(err)
	}
	return fmt.Sprintf("%s:%s (%s)", host, data, strings.TrimSpace(string(id))), nil
}

// stopped is nil for an error that a stop during the start brought about: it is still a clean stop.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// compile makes a manifest of an uploaded configuration.
func compile(file string, text []byte, env string) (*app.Manifest, []string, error) {
	m, warnings, err := config.Compile(file, text, env)
	if err != nil {
		return nil, nil, err
	}
	list := make([]string, len(warnings))
	for i := range warnings {
		list[i] = warnings[i].String()
	}
	return m, list, nil
}

// firstToken makes the first admin's token when there is none at all, and returns the file that holds it.
func firstToken(ctx context.Context, keeper *access.Keeper, data string) (path string, err error) {
	path = filepath.Join(data, tokenFile)
	tokens, err := keeper.List(ctx)
	if err != nil {
		return "", err
	}
	if len(tokens) > 0 {
		return "", nil
	}
	text, _, err := keeper.Create(ctx, "the first admin", access.Admin, "", time.Time{})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		return "", fault.New(fault.Environment, "data_unusable", "the first token cannot be written to %s", path).WithCause(err)
	}
	return path, nil
}

// listen takes both addresses: those that systemd hands over, or those of the settings.
func listen(ctx context.Context, s *Settings, folder *state.Folder) (public, operator net.Listener, err error) {
	given, err := activation.ListenersWithNames()
	if err != nil {
		return nil, nil, fault.New(fault.Environment, "socket_activation", "the sockets that systemd hands over cannot be used").WithCause(err)
	}
	take := func(name, setting, address string) (net.Listener, error) {
		if l := given[name]; len(l) > 0 && l[0] != nil {
			return l[0], nil
		}
		l, err := folder.Listen(ctx, address)
		if err == nil {
			return l, nil
		}
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fault.New(fault.Conflict, "port_in_use", "%s is in use", address).
				WithHint("stop what listens there, or choose another address with --%s", setting).WithCause(err)
		}
		return nil, fault.New(fault.Environment, "cannot_listen", "cannot listen on %s", address).
			WithHint("give --%s an address of this machine, like 127.0.0.1:8787 or :8787", setting).WithCause(err)
	}
	if public, err = take("public", "listen", s.Listen); err != nil {
		return nil, nil, err
	}
	if operator, err = take("operator", "operator", s.Operator); err != nil {
		_ = public.Close()
		return nil, nil, err
	}
	return public, operator, nil
}

// doors are what the daemon answers at.
type doors struct {
	public, operator net.Listener
	fleet            *fleet
	operators        http.Handler
	page             *dashboard.Dashboard
	pulls            *pulls.Keeper
	engine           *deploy.Engine
	dialect          *cloudflare.API
	// holder ends all of it when another celld has taken over.
	holder *control.Holder
}

// serve answers until ctx ends.
func serve(ctx context.Context, s *Settings, d *doors, ready Ready) error {
	public := ingress.NewServer(d.router(), s.Log)
	operator := ingress.NewServer(d.operators, s.Log)
	operator.ReadTimeout = queue.APIBodyTime
	operator.RegisterOnShutdown(d.pulls.Stop) // pulls that wait would hold the stop up, and so would views that are open
	operator.RegisterOnShutdown(d.page.Stop)
	operator.RegisterOnShutdown(d.dialect.Stop)
	var wg sync.WaitGroup
	failed := make(chan error, 2)
	for server, listener := range map[*http.Server]net.Listener{
		public: ingress.Bound(d.public, queue.PublicConnections), operator: ingress.Bound(d.operator, queue.OperatorConnections),
	} {
		wg.Go(func() {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("%s is not served any more: %w", listener.Addr(), err)
			}
		})
	}
	parking, stopParking := context.WithCancel(ctx)
	wg.Go(func() { d.fleet.park(parking) })
	var reviving sync.WaitGroup
	reviving.Go(func() { d.engine.Revive(parking) })
	notify(s, daemon.SdNotifyReady)
	s.Ready(ready)
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	case <-d.holder.Lost():
		err = d.holder.Err()
	}
	notify(s, daemon.SdNotifyStopping)
	s.Log.Info("stopping")
	stopParking()
	reviving.Wait() // an app is resumed or stopped, and not both at a time
	stopCtx, cancel := context.WithTimeout(context.Background(), queue.DrainTime)
	defer cancel()
	var stopping sync.WaitGroup
	for _, server := range []*http.Server{public, operator} {
		stopping.Go(func() {
			if server.Shutdown(stopCtx) != nil {
				_ = server.Close()
			}
		})
	}
	d.fleet.stop()
	stopping.Wait()
	wg.Wait()
	return err
}

func notify(s *Settings, what string) {
	if _, err := daemon.SdNotify(false, what); err != nil {
		s.Log.Warn("systemd cannot be told how the daemon is doing", "error", err)
	}
}
