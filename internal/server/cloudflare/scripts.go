package cloudflare

import (
	"net/http"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/server/cloudflare/upload"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// recentDeployments is how many deployments are listed, as Cloudflare does.
const recentDeployments = 10

func (a *API) registerScripts() {
	const scripts = "/accounts/{account}/workers/scripts"
	a.Handle("GET "+scripts, access.Read, a.listScripts)
	a.Handle("GET /accounts/{account}/workers/services/{app}", access.Read, a.service)
	a.Handle("DELETE /accounts/{account}/workers/services/{app}", access.Deploy, a.deleteScript)
	a.Handle("DELETE "+scripts+"/{app}", access.Deploy, a.deleteScript)
	a.Handle("GET "+scripts+"/{app}/versions", access.Read, a.listVersions)
	a.Handle("GET "+scripts+"/{app}/versions/{version}", access.Read, a.version)
	a.Handle("GET "+scripts+"/{app}/deployments", access.Read, a.listDeployments)
	a.Handle("POST "+scripts+"/{app}/deployments", access.Deploy, a.deploy)
	a.Handle("GET "+scripts+"/{app}/secrets", access.Read, a.listSecrets)
	a.Handle("PUT "+scripts+"/{app}/secrets", access.Deploy, a.putSecret)
	a.Handle("DELETE "+scripts+"/{app}/secrets/{name}", access.Deploy, a.deleteSecret)
}

func (a *API) listScripts(w http.ResponseWriter, c *wire.Call) error {
	apps, err := a.o.Versions.Apps(c.Context())
	if err != nil {
		return err
	}
	tags := map[string]string{}
	for _, m := range a.o.Queues.Manifests() {
		tags[m.Name] = upload.MigrationTag(m)
	}
	var all []map[string]any
	for i := range apps {
		if one := &apps[i]; one.Live != "" && (c.Token.App == "" || c.Token.App == one.Name) {
			script := map[string]any{"id": one.Name, "created_on": wire.Stamp(one.Created), "modified_on": wire.Stamp(one.Since)}
			if tag := tags[one.Name]; tag != "" {
				script["migration_tag"] = tag
			}
			all = append(all, script)
		}
	}
	wire.List(w, c, all)
	return nil
}

// service tells a client whether a script was deployed before.
func (a *API) service(w http.ResponseWriter, c *wire.Call) error {
	name := c.PathValue("app")
	one, err := a.o.Versions.App(c.Context(), name)
	if fault.KindOf(err) == fault.NotFound || err == nil && one.Live == "" {
		return fault.New(fault.NotFound, wire.CodeService, "there is no script %s", name)
	}
	if err != nil {
		return err
	}
	wire.Answer(w, map[string]any{
		"id": name, "default_environment": map[string]any{
			"environment": "production", "script": map[string]any{"id": name, "tag": one.Live, "tags": []string{}, "last_deployed_from": "wrangler"},
		},
	})
	return nil
}

func (a *API) deleteScript(w http.ResponseWriter, c *wire.Call) error {
	// As on Cloudflare, an app that others depend on is deleted only with ?force=true.
	force := c.URL.Query().Get("force") == "true"
	if _, err := a.o.Deploy.Delete(wire.Finished(c), c.PathValue("app"), c.Token.Name, force); err != nil {
		return err
	}
	wire.Answer(w, nil)
	return nil
}

// wireVersion is a version in Cloudflare's shape, with the secrets of its script.
func wireVersion(v *deploy.Version, secrets []deploy.Secret) map[string]any {
	m := v.Manifest
	annotations := map[string]string{}
	if v.Message != "" {
		annotations["workers/message"] = v.Message
	}
	return map[string]any{
		"id": v.ID, "number": v.Number, "annotations": annotations,
		"metadata": map[string]any{"created_on": wire.Stamp(v.Created), "modified_on": wire.Stamp(v.Created), "author_email": v.Author, "source": "wrangler"},
		"resources": map[string]any{
			"script":         map[string]any{"etag": v.Digest, "handlers": []string{}},
			"script_runtime": map[string]any{"compatibility_date": m.CompatibilityDate, "compatibility_flags": append([]string{}, m.CompatibilityFlags...)},
			"bindings":       append(upload.Bindings(m), upload.SecretBindings(deploy.Overlay(secrets, v.Secrets))...),
		},
	}
}

func (a *API) listVersions(w http.ResponseWriter, c *wire.Call) error {
	name := c.PathValue("app")
	if _, err := a.o.Versions.App(c.Context(), name); err != nil {
		return err
	}
	versions, err := a.o.Versions.Versions(c.Context(), name, 0, queue.KeptVersions)
	if err != nil {
		return err
	}
	secrets, err := a.o.Deploy.Secrets(c.Context(), name)
	if err != nil {
		return err
	}
	if len(versions) > 0 {
		// Clients take the secrets of the newest one from this list.
		newest, err := a.o.Versions.Version(c.Context(), name, versions[0].ID)
		if err != nil {
			return err
		}
		versions[0].Secrets = newest.Secrets
	}
	items := make([]map[string]any, 0, len(versions))
	for i := range versions {
		items = append(items, wireVersion(&versions[i], secrets))
	}
	wire.Answer(w, map[string]any{"items": items})
	return nil
}

func (a *API) version(w http.ResponseWriter, c *wire.Call) error {
	v, err := a.o.Versions.Version(c.Context(), c.PathValue("app"), c.PathValue("version"))
	if err != nil {
		return err
	}
	secrets, err := a.o.Deploy.Secrets(c.Context(), v.App)
	if err != nil {
		return err
	}
	wire.Answer(w, wireVersion(v, secrets))
	return nil
}

func (a *API) listDeployments(w http.ResponseWriter, c *wire.Call) error {
	name := c.PathValue("app")
	if _, err := a.o.Versions.App(c.Context(), name); err != nil {
		return err
	}
	deployments, err := a.o.Versions.Deployments(c.Context(), name, 0, recentDeployments)
	if err != nil {
		return err
	}
	items := make([]map[string]any, 0, len(deployments))
	for i := range deployments {
		d := &deployments[i]
		annotations := map[string]string{}
		if d.Message != "" {
			annotations["workers/message"] = d.Message
		}
		if d.Action == deploy.ActionRollback {
			annotations["workers/triggered_by"] = "rollback"
		}
		items = append(items, map[string]any{
			"id": d.ID, "created_on": wire.Stamp(d.Created), "author_email": d.Author, "source": "wrangler", "strategy": "percentage", "annotations": annotations,
			"versions": []map[string]any{{"version_id": d.Version, "percentage": 100}},
		})
	}
	wire.Answer(w, map[string]any{"deployments": items})
	return nil
}

// deployRequest makes versions live, each for a part of the requests.
type deployRequest struct {
	Versions []struct {
		ID      string  `json:"version_id"`
		Percent float64 `json:"percentage"`
	} `json:"versions"`
	Annotations map[string]string `json:"annotations"`
}

func (a *API) deploy(w http.ResponseWriter, c *wire.Call) error {
	in, err := wire.Body[deployRequest](c)
	if err != nil {
		return err
	}
	if len(in.Versions) != 1 || in.Versions[0].Percent != 100 {
		return fault.New(fault.Invalid, "deploy_split", "a deployment is one version for 100 percent of the requests here").
			WithHint("deploy one version, without a split")
	}
	name := c.PathValue("app")
	action, err := a.action(c, name, in.Versions[0].ID)
	if err != nil {
		return err
	}
	d, err := a.o.Deploy.Deploy(wire.Finished(c), &deploy.Request{
		App: name, Version: in.Versions[0].ID, Action: action, Author: c.Token.Name, Message: in.Annotations["workers/message"],
	})
	if err != nil {
		return err
	}
	wire.Answer(w, map[string]string{"id": d.ID})
	return nil
}

// action is a rollback where an older version than the live one is asked for: clients make the same call for both.
func (a *API) action(c *wire.Call, name, id string) (deploy.Action, error) {
	one, err := a.o.Versions.App(c.Context(), name)
	if err != nil {
		return "", err
	}
	v, err := a.o.Versions.Version(c.Context(), name, id)
	if err != nil {
		return "", err
	}
	if v.Number < one.LiveNumber {
		return deploy.ActionRollback, nil
	}
	return deploy.ActionDeploy, nil
}

// secretType is the one type of secret.
const secretType = "secret_text"

func (a *API) listSecrets(w http.ResponseWriter, c *wire.Call) error {
	secrets, err := a.o.Deploy.Secrets(c.Context(), c.PathValue("app"))
	if err != nil {
		return err
	}
	all := make([]map[string]string, len(secrets))
	for i := range secrets {
		all[i] = map[string]string{"name": secrets[i].Name, "type": secretType}
	}
	wire.List(w, c, all)
	return nil
}

func (a *API) putSecret(w http.ResponseWriter, c *wire.Call) error {
	in, err := wire.Body[struct{ Name, Text, Type string }](c)
	if err != nil {
		return err
	}
	if in.Type != "" && in.Type != secretType {
		return fault.New(fault.Invalid, "secret_type", "a secret of the type %q is not in this release", in.Type).WithHint("use %s", secretType)
	}
	if err := a.o.Deploy.PutSecret(wire.Finished(c), c.PathValue("app"), in.Name, in.Text, c.Token.Name); err != nil {
		return err
	}
	wire.Answer(w, map[string]string{"name": in.Name, "type": secretType})
	return nil
}

func (a *API) deleteSecret(w http.ResponseWriter, c *wire.Call) error {
	if err := a.o.Deploy.DeleteSecret(wire.Finished(c), c.PathValue("app"), c.PathValue("name"), c.Token.Name); err != nil {
		return err
	}
	wire.Answer(w, nil)
	return nil
}
