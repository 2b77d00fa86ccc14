package upload

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// Options are what the calls stand on; all fields are required.
type Options struct {
	Deploy   *deploy.Engine
	Versions deploy.Store
	// Compile makes a manifest of the text of a configuration file.
	Compile func(file string, text []byte, env string) (*app.Manifest, []string, error)
	// Running are the manifests of the versions that run.
	Running func() []*app.Manifest
	// Subdomain is what stands between the name of an app and ".workers.dev" where a client prints its address.
	Subdomain string
}

type service struct{ o Options }

// configFile is the name under which what an upload declares is compiled.
const configFile = "wrangler.json"

// Register adds the calls to a router.
func Register(r *wire.Router, o Options) {
	s := &service{o}
	const script = wire.Account + "/workers/scripts/{app}"
	r.HandleLarge("PUT "+script, access.Deploy, queue.MaxUpload, s.put)
	r.HandleLarge("POST "+script+"/versions", access.Deploy, queue.MaxUpload, s.add)
	r.Handle("GET "+script+"/settings", access.Read, s.settings)
	r.HandleLarge("PATCH "+script+"/settings", access.Deploy, queue.MaxUpload, s.patchSettings)
	r.Handle("GET "+script+"/script-settings", access.Read, s.known(map[string]any{"logpush": false, "tail_consumers": nil}))
	r.Handle("PATCH "+script+"/script-settings", access.Deploy, s.known(map[string]any{}))
	s.registerVersions(r)
	s.registerRoutes(r)
	r.Handle("GET "+script+"/schedules", access.Read, s.schedules)
	r.Handle("PUT "+script+"/schedules", access.Deploy, s.setSchedules)
	r.Handle("GET "+wire.Account+"/workers/subdomain", access.Read, func(w http.ResponseWriter, _ *wire.Call) error {
		wire.Answer(w, map[string]string{"subdomain": o.Subdomain})
		return nil
	})
	// An app is always reached under its name, and there are no previews.
	reached := s.known(map[string]bool{"enabled": true, "previews_enabled": false})
	r.Handle("GET "+script+"/subdomain", access.Read, reached)
	r.Handle("POST "+script+"/subdomain", access.Deploy, reached)
	// What depends on a script is said by the deletion itself.
	r.Handle("GET "+script+"/references", access.Read, s.known(map[string]any{}))
	r.Handle("GET "+wire.Account+"/workers/tails/by-consumer/{app}", access.Read, s.known([]any{}))
}

// known answers the same for every script that there is.
func (s *service) known(result any) func(w http.ResponseWriter, c *wire.Call) error {
	return func(w http.ResponseWriter, c *wire.Call) error {
		if _, err := s.o.Versions.App(c.Context(), c.PathValue("app")); err != nil {
			return err
		}
		wire.Answer(w, result)
		return nil
	}
}

// base is the version that another comes after: the live one, or where none is the newest; nil where there is none at all.
func (s *service) base(ctx context.Context, name string) (*deploy.Version, error) {
	one, err := s.o.Versions.App(ctx, name)
	if fault.KindOf(err) == fault.NotFound {
		return nil, nil //nolint:nilnil // the first upload of a script has none
	}
	if err != nil {
		return nil, err
	}
	if one.Live == "" {
		return s.newest(ctx, name)
	}
	return s.o.Versions.Version(ctx, name, one.Live)
}

// stored is a new version, and the milliseconds that it took to start it for a look at its handlers.
type stored struct {
	*deploy.Version

	startup int64
}

// store makes a version of an upload.
func (s *service) store(c *wire.Call) (*stored, error) {
	about, bundle, err := read(c.Request)
	if err != nil {
		return nil, err
	}
	name := c.PathValue("app")
	base, err := s.base(c.Context(), name)
	if err != nil {
		return nil, err
	}
	newest, err := s.newest(c.Context(), name)
	if err != nil {
		return nil, err
	}
	// What stays as it is stays as in the version that was uploaded last; consumers, crons and migrations go on behind the live one.
	var before, last *app.Manifest
	var secrets, changed []deploy.Secret
	if base != nil && newest != nil {
		before, last, changed = base.Manifest, newest.Manifest, newest.Secrets
		if secrets, err = s.o.Deploy.Secrets(c.Context(), name); err != nil {
			return nil, err
		}
		secrets = deploy.Overlay(secrets, changed)
	}
	d, err := declare(name, about, last, secrets)
	if err != nil {
		return nil, err
	}
	m, err := s.manifest(d, before)
	if err != nil {
		return nil, err
	}
	stores := before
	if last != nil && about.Migrations == nil && last.Follows(before) == nil {
		stores = last
	}
	if m.DurableObjects, err = objects(stores, d.objects, about.Migrations); err != nil {
		return nil, err
	}
	began := time.Now()
	uploaded, err := s.o.Deploy.Add(wire.Finished(c), &deploy.Upload{
		Manifest: m, Bundle: bundle, ConfigFile: configFile, Author: c.Token.Name, Message: cmp.Or(about.Notes["workers/message"], about.Notes["workers/tag"]),
		Open: true, Secrets: d.secrets, Inherited: changed,
	})
	if err != nil {
		return nil, err
	}
	return &stored{uploaded.Version, time.Since(began).Milliseconds()}, nil
}

// newest is the version that was uploaded last, nil where there is none.
func (s *service) newest(ctx context.Context, name string) (*deploy.Version, error) {
	list, err := s.o.Versions.Versions(ctx, name, 0, 1)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return s.o.Versions.Version(ctx, name, list[0].ID)
}

// manifest is what a declaration comes to. Consumers and crons are no part of an upload, and set by calls of their own: those
// of the version before go on.
func (s *service) manifest(d *declaration, before *app.Manifest) (*app.Manifest, error) {
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil, err
	}
	m, _, err := s.o.Compile(configFile, text, "")
	if err != nil {
		return nil, err
	}
	all := s.o.Running()
	if before != nil {
		all = append([]*app.Manifest{before}, all...)
		m.Consumers, m.Crons = slices.Clone(before.Consumers), before.Crons
	}
	for i := range m.D1Databases {
		db := &m.D1Databases[i]
		db.Name = db.ID // the upload does not tell what people call it
		if other := declared(all, db.ID); other != nil {
			db.Name, db.ID, db.MigrationsDir, db.MigrationsTable = other.Name, other.ID, other.MigrationsDir, other.MigrationsTable
		}
	}
	for i := range m.Consumers {
		m.Consumers[i].HandlerTime = queue.HandlerTime(m.Dialect, m.Consumers[i].BatchTimeout)
	}
	if m.Database != "" || len(m.Consumers) > 0 || len(m.Crons) > 0 {
		m.Database = d.database
	}
	return m, nil
}

// declared finds a D1 database by its identity; nil where no app declares it.
func declared(all []*app.Manifest, identity string) *app.D1Database {
	for _, m := range all {
		for i := range m.D1Databases {
			if m.D1Databases[i].Identity() == identity {
				return &m.D1Databases[i]
			}
		}
	}
	return nil
}

// add stores a version that does not become live by it.
func (s *service) add(w http.ResponseWriter, c *wire.Call) error {
	if _, err := s.o.Versions.App(c.Context(), c.PathValue("app")); err != nil {
		return err
	}
	v, err := s.store(c)
	if err != nil {
		return err
	}
	wire.Answer(w, map[string]any{
		"id": v.ID, "number": v.Number, "startup_time_ms": v.startup, "metadata": map[string]any{"has_preview": false}, "resources": map[string]any{"script": map[string]any{"etag": v.Digest}},
	})
	return nil
}

// put stores a version and makes it live.
func (s *service) put(w http.ResponseWriter, c *wire.Call) error {
	v, err := s.store(c)
	if err != nil {
		return err
	}
	_, err = s.o.Deploy.Deploy(wire.Finished(c), &deploy.Request{App: v.App, Version: v.ID, Author: c.Token.Name, Message: v.Message})
	if err != nil {
		return err
	}
	wire.Answer(w, map[string]any{"id": v.App, "etag": v.Digest, "deployment_id": v.ID, "startup_time_ms": v.startup, "created_on": wire.Stamp(v.Created), "modified_on": wire.Stamp(v.Created)})
	return nil
}
