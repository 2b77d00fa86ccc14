package apps

import (
	"context"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/server/api/endpoint"
	"github.com/runlot/runlot/internal/server/api/wire"
)

// Running is how an app is doing.
type Running struct {
	// State is one of client.App.
	State       string
	Since       time.Time
	Reason      string
	Restarts    int
	MemoryBytes int64
	Requests    int64
	Messages    int64
	// Manifest is that of the version that serves.
	Manifest *app.Manifest
}

// Instance is what the calls ask of what runs.
type Instance interface {
	// Apps describes how the apps are doing, by name. Those that are not in it are stopped.
	Apps(ctx context.Context) (map[string]Running, error)
	// URLs are the public addresses of an app.
	URLs(appName string) []string
}

// Compiler makes a manifest of the text of a configuration file, chosen by its name; env is an environment of a wrangler
// file, or "".
type Compiler func(file string, text []byte, env string) (m *app.Manifest, warnings []string, err error)

// Options are what the calls stand on. All fields are required.
type Options struct {
	Deploy   *deploy.Engine
	Versions deploy.Store
	Instance Instance
	Compile  Compiler
}

// calls are the calls about apps, their versions and secrets.
type calls struct {
	d *endpoint.Door
	o Options
}

const (
	tagApps    = "Apps"
	tagSecrets = "Secrets"
)

// Register has a door answer the calls about apps, versions, deployments, events and secrets.
func Register(d *endpoint.Door, o Options) {
	c := &calls{d, o}
	c.registerApps()
	c.registerSecrets()
}

func (c *calls) registerApps() {
	endpoint.Call(c.d, access.Read, huma.Operation{
		OperationID: "list-apps", Method: http.MethodGet, Path: "/v1/apps", Summary: "List the apps", Tags: []string{tagApps},
		Metadata: map[string]any{endpoint.AnyApp: true},
	}, func(ctx context.Context, _ *struct{}) (*endpoint.List[client.App], error) {
		apps, err := c.o.Versions.Apps(ctx)
		if err != nil {
			return nil, err
		}
		running, err := c.o.Instance.Apps(ctx)
		if err != nil {
			return nil, err
		}
		only := endpoint.Caller(ctx).App
		var list []client.App
		for i := range apps {
			if only == "" || only == apps[i].Name {
				list = append(list, c.describe(&apps[i], running))
			}
		}
		return endpoint.ListOf(list), nil
	})
	endpoint.Call(c.d, access.Read, huma.Operation{
		OperationID: "get-app", Method: http.MethodGet, Path: "/v1/apps/{app}", Summary: "Describe an app", Tags: []string{tagApps},
	}, func(ctx context.Context, in *endpoint.AppPath) (*endpoint.Body[client.App], error) {
		one, err := c.o.Versions.App(ctx, in.App)
		if err != nil {
			return nil, err
		}
		running, err := c.o.Instance.Apps(ctx)
		if err != nil {
			return nil, err
		}
		return endpoint.Answer(c.describe(&one, running)), nil
	})
	endpoint.Call(c.d, access.Deploy, huma.Operation{
		OperationID: "delete-app", Method: http.MethodDelete, Path: "/v1/apps/{app}", Summary: "Delete an app", Tags: []string{tagApps},
		Description: "Stops the app and forgets its versions and secrets. Its messages stay in its database. Refused with app_needed while other apps " +
			"send to a queue that only this one consumes, or consume one to which only this one sends, unless it is forced.",
	}, func(ctx context.Context, in *struct {
		endpoint.AppPath

		Force bool `query:"force" doc:"Delete it also when other apps depend on it."`
	},
	) (*endpoint.Body[client.DeletedApp], error) {
		orphans, err := c.o.Deploy.Delete(ctx, in.App, endpoint.Author(ctx), in.Force)
		if err != nil {
			return nil, err
		}
		return endpoint.Answer(client.DeletedApp{Left: wireOrphans(orphans)}), nil
	})
	endpoint.Call(c.d, access.Deploy, huma.Operation{
		OperationID: "create-version", Method: http.MethodPost, Path: "/v1/apps/{app}/versions", Summary: "Upload a version", Tags: []string{tagApps},
		Description: "A form with the parts `config` (the configuration file, under its name), `module` (the main module first; the content type is " +
			"application/vnd.runlot.KIND with the kind esModule, text, data or wasm), `source_map`, and the fields `env`, `message`, " +
			"`service_worker` and `check_only`. The version is checked and stored, and does not run before it is deployed.",
		MaxBodyBytes: queue.MaxUpload, DefaultStatus: http.StatusCreated,
	}, c.createVersion)
	endpoint.Call(c.d, access.Read, huma.Operation{
		OperationID: "list-versions", Method: http.MethodGet, Path: "/v1/apps/{app}/versions", Summary: "List the versions of an app", Tags: []string{tagApps},
	}, func(ctx context.Context, in *struct {
		endpoint.AppPath
		endpoint.PageQuery
	},
	) (*endpoint.List[client.Version], error) {
		if _, err := c.o.Versions.App(ctx, in.App); err != nil {
			return nil, err
		}
		versions, err := c.o.Versions.Versions(ctx, in.App, int(in.Before), in.Limit)
		if err != nil {
			return nil, err
		}
		list := make([]client.Version, len(versions))
		for i := range versions {
			list[i] = wire.Version(&versions[i])
		}
		return endpoint.ListOf(list), nil
	})
	endpoint.Call(c.d, access.Deploy, huma.Operation{
		OperationID: "create-deployment", Method: http.MethodPost, Path: "/v1/apps/{app}/deployments", Summary: "Make a version live", Tags: []string{tagApps},
		Description: "The version starts, is committed as the live one, and takes over; the one before finishes what it has in flight. " +
			"A failure leaves the version before in place.",
		DefaultStatus: http.StatusCreated,
	}, func(ctx context.Context, in *struct {
		endpoint.AppPath

		Body client.Deploy
	},
	) (*endpoint.Body[client.Deployment], error) {
		r := &deploy.Request{App: in.App, Version: in.Body.Version, Action: deploy.ActionDeploy, Author: endpoint.Author(ctx), Message: in.Body.Message}
		if in.Body.Rollback {
			r.Action = deploy.ActionRollback
		} else if r.Version == "" {
			return nil, fault.New(fault.Invalid, "version_missing", "a deployment names a version").WithHint("only a rollback may leave it out")
		}
		// A deployment that began is brought to its end, also when the caller goes away.
		d, err := c.o.Deploy.Deploy(context.WithoutCancel(ctx), r)
		if err != nil {
			return nil, err
		}
		return endpoint.Answer(c.describeDeployment(d)), nil
	})
	endpoint.Call(c.d, access.Read, huma.Operation{
		OperationID: "list-deployments", Method: http.MethodGet, Path: "/v1/apps/{app}/deployments", Summary: "List the deployments of an app",
		Tags: []string{tagApps},
	}, func(ctx context.Context, in *struct {
		endpoint.AppPath
		endpoint.PageQuery
	},
	) (*endpoint.List[client.Deployment], error) {
		if _, err := c.o.Versions.App(ctx, in.App); err != nil {
			return nil, err
		}
		deployments, err := c.o.Versions.Deployments(ctx, in.App, int(in.Before), in.Limit)
		if err != nil {
			return nil, err
		}
		list := make([]client.Deployment, len(deployments))
		for i := range deployments {
			list[i] = c.describeDeployment(&deployments[i])
		}
		return endpoint.ListOf(list), nil
	})
	endpoint.Call(c.d, access.Read, huma.Operation{
		OperationID: "list-events", Method: http.MethodGet, Path: "/v1/events", Summary: "List what was done", Tags: []string{tagApps},
		Metadata: map[string]any{endpoint.AnyApp: true},
	}, func(ctx context.Context, in *struct {
		endpoint.PageQuery

		App string `query:"app" doc:"Only of this app."`
	},
	) (*endpoint.List[client.Event], error) {
		if only := endpoint.Caller(ctx).App; only != "" {
			in.App = only
		}
		events, err := c.o.Versions.Events(ctx, in.App, in.Before, in.Limit)
		if err != nil {
			return nil, err
		}
		list := make([]client.Event, len(events))
		for i := range events {
			e := &events[i]
			list[i] = client.Event{ID: e.ID, At: e.At, Kind: e.Kind, App: e.App, Author: e.Author, Detail: e.Detail}
		}
		return endpoint.ListOf(list), nil
	})
}

func (c *calls) createVersion(ctx context.Context, in *struct {
	endpoint.AppPath

	RawBody multipart.Form
},
) (*endpoint.Body[client.Uploaded], error) {
	form := &in.RawBody
	defer func() { _ = form.RemoveAll() }()
	u, warnings, err := c.upload(form)
	if err != nil {
		return nil, err
	}
	if u.Manifest.Name != in.App {
		return nil, fault.New(fault.Invalid, "app_name", "%s names the app %s, and the call is for %s", u.ConfigFile, u.Manifest.Name, in.App)
	}
	u.Author = endpoint.Author(ctx)
	add := c.o.Deploy.Add
	if field(form, "check_only") == "true" {
		add = c.o.Deploy.Check
	}
	uploaded, err := add(ctx, u)
	if err != nil {
		return nil, err
	}
	out := client.Uploaded{Version: wire.Version(uploaded.Version), Warnings: append(append([]string{}, warnings...), uploaded.Warnings...), Removed: wireOrphans(uploaded.Removed)}
	return endpoint.Answer(out), nil
}

func wireOrphans(list []deploy.Orphans) []client.Orphans {
	out := make([]client.Orphans, len(list))
	for i := range list {
		out[i] = client.Orphans(list[i])
	}
	return out
}

func field(form *multipart.Form, name string) string {
	if values := form.Value[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// upload reads the form of an upload.
func (c *calls) upload(form *multipart.Form) (*deploy.Upload, []string, error) {
	configs := form.File["config"]
	if len(configs) != 1 {
		return nil, nil, fault.New(fault.Invalid, "upload_config", "an upload has one part `config`; this one has %d", len(configs))
	}
	text, err := part(configs[0], queue.MaxConfigFile)
	if err != nil {
		return nil, nil, err
	}
	m, warnings, err := c.o.Compile(configs[0].Filename, text, field(form, "env"))
	if err != nil {
		return nil, nil, err
	}
	modules := form.File["module"]
	if len(modules) == 0 || len(modules) > queue.MaxModules {
		return nil, nil, fault.New(fault.Invalid, "upload_modules", "an upload has 1 to %d parts `module`; this one has %d", queue.MaxModules, len(modules))
	}
	b := &app.Bundle{ServiceWorker: field(form, "service_worker") == "true"}
	for _, file := range modules {
		// What it cannot read is no kind.
		kind, _, _ := mime.ParseMediaType(file.Header.Get("Content-Type"))
		module := app.Module{Name: file.Filename, Kind: kindOf(kind)}
		if module.Kind == "" {
			return nil, nil, fault.New(fault.Invalid, "upload_module_kind", "the module %s has the content type %q", file.Filename, file.Header.Get("Content-Type")).
				WithHint("use application/vnd.runlot.esModule, .text, .data or .wasm")
		}
		if module.Body, err = part(file, queue.MaxBundle); err != nil {
			return nil, nil, err
		}
		b.Modules = append(b.Modules, module)
	}
	if maps := form.File["source_map"]; len(maps) == 1 {
		if b.SourceMap, err = part(maps[0], queue.MaxBundle); err != nil {
			return nil, nil, err
		}
	}
	return &deploy.Upload{Manifest: m, Bundle: b, ConfigFile: configs[0].Filename, Message: field(form, "message")}, warnings, nil
}

// kindOf is the kind of module with a content type; "" for another.
func kindOf(contentType string) app.ModuleKind {
	for _, kind := range []app.ModuleKind{app.ESModule, app.Text, app.Data, app.Wasm} {
		if strings.EqualFold(contentType, "application/vnd.runlot."+string(kind)) {
			return kind
		}
	}
	return ""
}

func part(file *multipart.FileHeader, most int64) ([]byte, error) {
	if file.Size > most {
		return nil, fault.New(fault.Limit, "upload_size", "%s has %d bytes; the limit is %d", file.Filename, file.Size, most)
	}
	f, err := file.Open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

func (c *calls) describe(one *deploy.App, running map[string]Running) client.App {
	out := client.App{
		Name: one.Name, Created: one.Created, State: "stopped", Since: one.Created, URLs: c.o.Instance.URLs(one.Name),
		Producers: []client.Producer{}, Consumers: []client.Consumer{},
	}
	if one.Live != "" {
		out.Live, out.Since = &client.VersionRef{ID: one.Live, Number: one.LiveNumber}, one.Since
	}
	r, ok := running[one.Name]
	if !ok {
		return out
	}
	out.State, out.Since, out.Reason, out.Restarts = r.State, r.Since, r.Reason, r.Restarts
	out.MemoryBytes, out.Requests, out.Messages = r.MemoryBytes, r.Requests, r.Messages
	if r.Manifest != nil {
		out.Database = r.Manifest.Database
		out.Producers, out.Consumers = wire.Bindings(r.Manifest)
	}
	return out
}

func (c *calls) describeDeployment(d *deploy.Deployment) client.Deployment {
	return client.Deployment{
		ID: d.ID, Number: d.Number, App: d.App, Version: client.VersionRef{ID: d.Version, Number: d.VersionNumber}, Created: d.Created,
		Action: string(d.Action), Author: d.Author, Message: d.Message, URLs: c.o.Instance.URLs(d.App), Removed: wireOrphans(d.Removed),
	}
}
