package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/runlot/runlot/internal/adapter/postgres/control"
	"github.com/runlot/runlot/internal/adapter/postgres/record"
	"github.com/runlot/runlot/internal/adapter/sealer"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/ledger"
	"github.com/runlot/runlot/internal/engine/series"
	"github.com/runlot/runlot/internal/server/api"
	"github.com/runlot/runlot/internal/server/api/reach"
	"github.com/runlot/runlot/internal/server/dashboard"
)

// views are the pages that somebody keeps open.
var views = []string{"/queues", "/databases/bench/queues/" + jobs, "/databases/bench/queues/" + jobs}

// paged is the engine with records and numbers, and with the page for operators open in three windows.
type paged struct {
	*watched
	stored  *record.Store
	control *control.Store
	server  *httptest.Server
	key     string

	viewer *viewer
}

func openPaged(ctx context.Context, s *server, at string) (_ subject, err error) {
	inner, err := newWatched(ctx, s, at)
	if err != nil {
		return nil, err
	}
	p := &paged{watched: inner}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close(ctx))
		}
	}()
	log := slog.New(slog.DiscardHandler)
	if p.stored, err = record.Open(ctx, at); err != nil {
		return nil, err
	}
	p.records = ledger.New(log)
	p.records.Attach(p.stored)
	p.records.Start()
	if p.control, err = control.Open(ctx, func(context.Context) (string, error) { return at, nil }); err != nil {
		return nil, err
	}
	if p.key, err = os.MkdirTemp("", "bench"); err != nil {
		return nil, err
	}
	seal, err := sealer.Open(filepath.Join(p.key, "key"))
	if err != nil {
		return nil, err
	}
	keeper := access.New(p.control)
	token, _, err := keeper.Create(ctx, "bench", access.Admin, "", time.Time{})
	if err != nil {
		return nil, err
	}
	calls := api.New(api.Options{Access: keeper, Queues: &shown{p}, Version: "bench", Account: "local", Log: log})
	p.server = httptest.NewServer(dashboard.New(dashboard.Options{API: calls, Sealer: seal, Log: log}))
	if p.viewer, err = signIn(ctx, p.server.URL, token); err != nil {
		return nil, err
	}
	return p, p.viewer.open(ctx, views)
}

// Close implements subject.
func (p *paged) Close(ctx context.Context) error {
	if p.viewer != nil {
		p.viewer.close()
	}
	stop, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	if p.server != nil {
		p.server.Close()
	}
	if p.control != nil {
		p.control.Close()
	}
	if p.records != nil {
		p.records.Stop(stop)
	}
	if p.stored != nil {
		p.stored.Close()
	}
	return errors.Join(p.watched.Close(ctx), os.RemoveAll(p.key))
}

// shown is what the page is told of: the one database and an app that drains its queue.
type shown struct{ p *paged }

// Databases implements reach.Queues.
func (*shown) Databases() []string { return []string{"bench"} }

// Database implements reach.Queues.
func (s *shown) Database(context.Context, string) (reach.Database, error) {
	return reach.Database{Broker: s.p.broker, Records: s.p.records}, nil
}

// Series implements reach.Queues.
func (s *shown) Series(string) *series.Recorder { return s.p.recorder }

// Manifests implements reach.Queues.
func (*shown) Manifests() []*app.Manifest {
	return []*app.Manifest{{
		Name: "bench", Database: "bench", Producers: []app.Producer{{Binding: "JOBS", Queue: jobs}},
		Consumers: []queue.Consumer{{Queue: jobs, BatchSize: batchSize, BatchTimeout: time.Second, MaxRetries: 3}},
	}}
}
