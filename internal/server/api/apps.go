package api

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

// AppPath is the input of a call about one app.
type AppPath struct {
	App string `path:"app" maxLength:"255"`
}

// PageQuery is the input of a list with pages.
type PageQuery struct {
	Before int64 `query:"before" minimum:"0" doc:"Only entries with lower numbers: the last one of the page before."`
	Limit  int   `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

func (a *API) registerApps() {
	call(a, access.Read, huma.Operation{
		OperationID: "list-apps", Method: http.MethodGet, Path: "/v1/apps", Summary: "List the apps", Tags: []string{tagApps},
		Metadata: map[string]any{anyApp: true},
	}, func(ctx context.Context, _ *struct{}) (*listBody[client.App], error) {
		apps, err := a.o.Versions.Apps(ctx)
		if err != nil {
			return nil, err
		}
		running, err := a.o.Instance.Apps(ctx)
		if err != nil {
			return nil, err
		}
		only := caller(ctx).App
		var list []client.App
		for i := range apps {
			if only == "" || only == apps[i].Name {
				list = append(list, a.wireApp(&apps[i], running))
			}
		}
		return listOf(list), nil
	})
	call(a, access.Read, huma.Operation{
		OperationID: "get-app", Method: http.MethodGet, Path: "/v1/apps/{app}", Summary: "Describe an app", Tags: []string{tagApps},
	}, func(ctx context.Context, in *AppPath) (*body[client.App], error) {
		one, err := a.o.Versions.App(ctx, in.App)
		if err != nil {
			return nil, err
		}
		running, err := a.o.Instance.Apps(ctx)
		if err != nil {
			return nil, err
		}
		return &body[client.App]{a.wireApp(&one, running)}, nil
	})
	call(a, access.Deploy, huma.Operation{
		OperationID: "delete-app", Method: http.MethodDelete, Path: "/v1/apps/{app}", Summary: "Delete an app", Tags: []string{tagApps},
		Description: "Stops the app and forgets its versions and secrets. Its messages stay in its database.", DefaultStatus: http.StatusNoContent,
	}, func(ctx context.Context, in *AppPath) (*struct{}, error) {
		return nil, a.o.Deploy.Delete(ctx, in.App, author(ctx))
	})
	call(a, access.Deploy, huma.Operation{
		OperationID: "create-version", Method: http.MethodPost, Path: "/v1/apps/{app}/versions", Summary: "Upload a version", Tags: []string{tagApps},
		Description: "A form with the parts `config` (the configuration file, under its name), `module` (the main module first; the content type is " +
			"application/vnd.runlot.KIND with the kind esModule, text, data or wasm), `source_map`, and the fields `env`, `message`, " +
			"`service_worker` and `check_only`. The version is checked and stored, and does not run before it is deployed.",
		MaxBodyBytes: queue.MaxUpload, DefaultStatus: http.StatusCreated,
	}, a.createVersion)
	call(a, access.Read, huma.Operation{
		OperationID: "list-versions", Method: http.MethodGet, Path: "/v1/apps/{app}/versions", Summary: "List the versions of an app", Tags: []string{tagApps},
	}, func(ctx context.Context, in *struct {
		AppPath
		PageQuery
	},
	) (*listBody[client.Version], error) {
		if _, err := a.o.Versions.App(ctx, in.App); err != nil {
			return nil, err
		}
		versions, err := a.o.Versions.Versions(ctx, in.App, int(in.Before), in.Limit)
		if err != nil {
			return nil, err
		}
		list := make([]client.Version, len(versions))
		for i := range versions {
			list[i] = wire.Version(&versions[i])
		}
		return listOf(list), nil
	})
	call(a, access.Deploy, huma.Operation{
		OperationID: "create-deployment", Method: http.MethodPost, Path: "/v1/apps/{app}/deployments", Summary: "Make a version live", Tags: []string{tagApps},
		Description: "The version starts, is committed as the live one, and takes over; the one before finishes what it has in flight. " +
			"A failure leaves the version before in place.",
		DefaultStatus: http.StatusCreated,
	}, func(ctx context.Context, in *struct {
		AppPath

		Body client.Deploy
	},
	) (*body[client.Deployment], error) {
		r := &deploy.Request{App: in.App, Version: in.Body.Version, Action: deploy.ActionDeploy, Author: author(ctx), Message: in.Body.Message}
		if in.Body.Rollback {
			r.Action = deploy.ActionRollback
		} else if r.Version == "" {
			return nil, fault.New(fault.Invalid, "version_missing", "a deployment names a version").WithHint("only a rollback may leave it out")
		}
		// A deployment that began is brought to its end, also when the caller goes away.
		d, err := a.o.Deploy.Deploy(context.WithoutCancel(ctx), r)
		if err != nil {
			return nil, err
		}
		return &body[client.Deployment]{a.wireDeployment(d)}, nil
	})
	call(a, access.Read, huma.Operation{
		OperationID: "list-deployments", Method: http.MethodGet, Path: "/v1/apps/{app}/deployments", Summary: "List the deployments of an app",
		Tags: []string{tagApps},
	}, func(ctx context.Context, in *struct {
		AppPath
		PageQuery
	},
	) (*listBody[client.Deployment], error) {
		if _, err := a.o.Versions.App(ctx, in.App); err != nil {
			return nil, err
		}
		deployments, err := a.o.Versions.Deployments(ctx, in.App, int(in.Before), in.Limit)
		if err != nil {
			return nil, err
		}
		list := make([]client.Deployment, len(deployments))
		for i := range deployments {
			list[i] = a.wireDeployment(&deployments[i])
		}
		return listOf(list), nil
	})
	call(a, access.Read, huma.Operation{
		OperationID: "list-events", Method: http.MethodGet, Path: "/v1/events", Summary: "List what was done", Tags: []string{tagApps},
		Metadata: map[string]any{anyApp: true},
	}, func(ctx context.Context, in *struct {
		PageQuery

		App string `query:"app" doc:"Only of this app."`
	},
	) (*listBody[client.Event], error) {
		if only := caller(ctx).App; only != "" {
			in.App = only
		}
		events, err := a.o.Versions.Events(ctx, in.App, in.Before, in.Limit)
		if err != nil {
			return nil, err
		}
		list := make([]client.Event, len(events))
		for i := range events {
			e := &events[i]
			list[i] = client.Event{ID: e.ID, At: e.At, Kind: e.Kind, App: e.App, Author: e.Author, Detail: e.Detail}
		}
		return listOf(list), nil
	})
}

func (a *API) createVersion(ctx context.Context, in *struct {
	AppPath

	RawBody multipart.Form
},
) (*body[client.Uploaded], error) {
	form := &in.RawBody
	defer func() { _ = form.RemoveAll() }()
	u, warnings, err := a.upload(form)
	if err != nil {
		return nil, err
	}
	if u.Manifest.Name != in.App {
		return nil, fault.New(fault.Invalid, "app_name", "%s names the app %s, and the call is for %s", u.ConfigFile, u.Manifest.Name, in.App)
	}
	u.Author = author(ctx)
	add := a.o.Deploy.Add
	if field(form, "check_only") == "true" {
		add = a.o.Deploy.Check
	}
	uploaded, err := add(ctx, u)
	if err != nil {
		return nil, err
	}
	out := client.Uploaded{Version: wire.Version(uploaded.Version), Warnings: append(append([]string{}, warnings...), uploaded.Warnings...), Removed: []client.Orphans{}}
	for _, r := range uploaded.Removed {
		out.Removed = append(out.Removed, client.Orphans{Queue: r.Queue, Messages: r.Messages})
	}
	return &body[client.Uploaded]{out}, nil
}

func field(form *multipart.Form, name string) string {
	if values := form.Value[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// upload reads the form of an upload.
func (a *API) upload(form *multipart.Form) (*deploy.Upload, []string, error) {
	configs := form.File["config"]
	if len(configs) != 1 {
		return nil, nil, fault.New(fault.Invalid, "upload_config", "an upload has one part `config`; this one has %d", len(configs))
	}
	text, err := part(configs[0], queue.MaxConfigFile)
	if err != nil {
		return nil, nil, err
	}
	m, warnings, err := a.o.Compile(configs[0].Filename, text, field(form, "env"))
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

func (a *API) wireApp(one *deploy.App, running map[string]Running) client.App {
	out := client.App{
		Name: one.Name, Created: one.Created, State: "stopped", Since: one.Created, URLs: a.o.Instance.URLs(one.Name),
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

func (a *API) wireDeployment(d *deploy.Deployment) client.Deployment {
	return client.Deployment{
		ID: d.ID, Number: d.Number, App: d.App, Version: client.VersionRef{ID: d.Version, Number: d.VersionNumber}, Created: d.Created,
		Action: string(d.Action), Author: d.Author, Message: d.Message, URLs: a.o.Instance.URLs(d.App),
	}
}
