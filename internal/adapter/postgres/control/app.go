package control

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/runlot/runlot/internal/adapter/postgres/control/query"
	"github.com/runlot/runlot/internal/adapter/postgres/control/subscriptions"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/engine/subscribe"
)

// sourceMapKind marks the module that is the source map of the main module.
const sourceMapKind = "sourceMap"

func unknownApp(name string) *fault.Error {
	return fault.New(fault.NotFound, deploy.CodeAppUnknown, "there is no app %s", name).
		WithHint("`runlot ps` lists the apps; `runlot deploy` makes one")
}

func unknownVersion(appName, id string) *fault.Error {
	return fault.New(fault.NotFound, deploy.CodeVersionUnknown, "%s has no version %s", appName, id).
		WithHint("`runlot versions` lists them")
}

// Apps implements deploy.Store.
func (s *Store) Apps(ctx context.Context) ([]deploy.App, error) { return s.apps(ctx, "") }

// App implements deploy.Store.
func (s *Store) App(ctx context.Context, name string) (deploy.App, error) {
	if name == "" {
		return deploy.App{}, unknownApp(name)
	}
	list, err := s.apps(ctx, name)
	if err != nil {
		return deploy.App{}, err
	}
	if len(list) == 0 {
		return deploy.App{}, unknownApp(name)
	}
	return list[0], nil
}

func (s *Store) apps(ctx context.Context, name string) ([]deploy.App, error) {
	rows, err := s.read().Apps(ctx, name)
	if err != nil {
		return nil, session.Classify(err)
	}
	list := make([]deploy.App, len(rows))
	for i := range rows {
		list[i] = deploy.App{Name: rows[i].Name, Created: rows[i].CreatedAt.UTC()}
		if rows[i].LiveVersion != nil {
			list[i].Live, list[i].LiveNumber, list[i].Since = rows[i].LiveVersion.String(), int(*rows[i].LiveNumber), rows[i].LiveSince.UTC()
		}
	}
	return list, nil
}

// AddVersion implements deploy.Store.
func (s *Store) AddVersion(ctx context.Context, v *deploy.Version, keep int) error {
	manifest, err := json.Marshal(v.Manifest)
	if err != nil {
		return err
	}
	id, err := newID()
	if err != nil {
		return err
	}
	var open *time.Time
	if !v.OpenUntil.IsZero() {
		open = &v.OpenUntil
	}
	var number int32
	err = s.transaction(ctx, func(tx pgx.Tx, q *query.Queries) error {
		if err := q.AddApp(ctx, query.AddAppParams{Name: v.App, CreatedAt: v.Created}); err != nil {
			return err
		}
		// The lock on the app's row makes numbers unique.
		if _, err := q.LockApp(ctx, v.App); err != nil {
			return err
		}
		if number, err = q.NextVersion(ctx, v.App); err != nil {
			return err
		}
		err := q.AddVersion(ctx, query.AddVersionParams{
			ID: id, CreatedAt: v.Created, OpenUntil: open, Number: number, ServiceWorker: v.Bundle.ServiceWorker, App: v.App, Author: v.Author,
			Message: v.Message, ConfigFile: v.ConfigFile, Digest: v.Digest, Manifest: manifest,
		})
		if err != nil {
			return err
		}
		if err := addModules(ctx, q, id, v.Bundle); err != nil {
			return err
		}
		err = subscriptions.Raise(ctx, tx, &subscribe.Fact{Event: subscribe.VersionUploaded, Script: v.App, At: v.Created, Payload: map[string]any{
			"versionId": id.String(), "versionNumber": number, "author": v.Author, "message": v.Message,
		}})
		if err != nil {
			return err
		}
		for i := range v.Secrets {
			if err := q.AddVersionSecret(ctx, query.AddVersionSecretParams{Version: id, Name: v.Secrets[i].Name, Sealed: v.Secrets[i].Sealed}); err != nil {
				return err
			}
		}
		if number <= int32(keep) {
			return nil
		}
		if err := q.PruneVersions(ctx, query.PruneVersionsParams{App: v.App, UpTo: number - int32(keep)}); err != nil {
			return err
		}
		return q.PruneBlobs(ctx)
	})
	if err != nil {
		return err
	}
	v.ID, v.Number = id.String(), int(number)
	return nil
}

func addModules(ctx context.Context, q *query.Queries, version uuid.UUID, b *app.Bundle) error {
	modules := b.Modules
	if b.SourceMap != nil {
		modules = append(slices.Clip(modules), app.Module{Name: "source-map", Kind: sourceMapKind, Body: b.SourceMap})
	}
	for i := range modules {
		m := &modules[i]
		sum := sha256.Sum256(m.Body)
		body := m.Body
		if body == nil {
			body = []byte{}
		}
		if err := q.AddBlob(ctx, query.AddBlobParams{Digest: sum[:], Body: body}); err != nil {
			return err
		}
		err := q.AddModule(ctx, query.AddModuleParams{
			Version: version, Place: int32(i), Name: m.Name, Kind: string(m.Kind), Blob: sum[:],
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Version implements deploy.Store.
func (s *Store) Version(ctx context.Context, appName, id string) (*deploy.Version, error) {
	key, err := uuid.Parse(id)
	if err != nil {
		return nil, unknownVersion(appName, id)
	}
	row, err := s.read().Version(ctx, query.VersionParams{App: appName, ID: key})
	if missing(err) {
		return nil, unknownVersion(appName, id)
	}
	if err != nil {
		return nil, session.Classify(err)
	}
	v, err := version((*query.VersionsRow)(&row))
	if err != nil {
		return nil, err
	}
	modules, err := s.read().Modules(ctx, key)
	if err != nil {
		return nil, session.Classify(err)
	}
	v.Bundle = &app.Bundle{ServiceWorker: row.ServiceWorker}
	for i := range modules {
		if modules[i].Kind == sourceMapKind {
			v.Bundle.SourceMap = modules[i].Body
			continue
		}
		v.Bundle.Modules = append(v.Bundle.Modules, app.Module{Name: modules[i].Name, Kind: app.ModuleKind(modules[i].Kind), Body: modules[i].Body})
	}
	secrets, err := s.read().VersionSecrets(ctx, key)
	if err != nil {
		return nil, session.Classify(err)
	}
	for i := range secrets {
		v.Secrets = append(v.Secrets, deploy.Secret{Name: secrets[i].Name, Sealed: secrets[i].Sealed})
	}
	return v, nil
}

// AmendVersion implements deploy.Store.
func (s *Store) AmendVersion(ctx context.Context, v *deploy.Version, was string) error {
	manifest, err := json.Marshal(v.Manifest)
	if err != nil {
		return err
	}
	key, err := uuid.Parse(v.ID)
	if err != nil {
		return unknownVersion(v.App, v.ID)
	}
	return s.write(ctx, func(q *query.Queries) error {
		live, err := q.LockApp(ctx, v.App)
		if err != nil && !missing(err) {
			return err
		}
		var n int64
		if live != nil && *live == key {
			n, err = q.AmendVersion(ctx, query.AmendVersionParams{App: v.App, ID: key, Digest: v.Digest, Manifest: manifest, Was: was})
		}
		if err == nil && n == 0 || missing(err) {
			err = changedMeanwhile(v.App)
		}
		return err
	})
}

func changedMeanwhile(appName string) error {
	return fault.New(fault.Conflict, deploy.CodeLiveChanged, "another version of %s became live meanwhile", appName).
		WithHint("look at `runlot versions` and deploy again")
}

func version(row *query.VersionsRow) (*deploy.Version, error) {
	v := &deploy.Version{
		ID: row.ID.String(), Number: int(row.Number), App: row.App, Created: row.CreatedAt.UTC(), Author: row.Author,
		Message: row.Message, ConfigFile: row.ConfigFile, Digest: row.Digest, Live: row.Live, Manifest: &app.Manifest{},
	}
	v.OpenUntil = moment(row.OpenUntil)
	if err := json.Unmarshal(row.Manifest, v.Manifest); err != nil {
		return nil, fmt.Errorf("manifest of version %s of %s: %w", v.ID, v.App, err)
	}
	return v, nil
}

// Versions implements deploy.Store.
func (s *Store) Versions(ctx context.Context, appName string, number, count int) ([]deploy.Version, error) {
	rows, err := s.read().Versions(ctx, query.VersionsParams{App: appName, Before: before(number), Count: page(count)})
	if err != nil {
		return nil, session.Classify(err)
	}
	list := make([]deploy.Version, len(rows))
	for i := range rows {
		v, err := version(&rows[i])
		if err != nil {
			return nil, err
		}
		list[i] = *v
	}
	return list, nil
}

// SetLive implements deploy.Store.
func (s *Store) SetLive(ctx context.Context, d *deploy.Deployment, was string) error {
	key, err := uuid.Parse(d.Version)
	if err != nil {
		return unknownVersion(d.App, d.Version)
	}
	id, err := newID()
	if err != nil {
		return err
	}
	var number, versionNumber int32
	err = s.transaction(ctx, func(tx pgx.Tx, q *query.Queries) error {
		live, err := q.LockApp(ctx, d.App)
		if missing(err) {
			return unknownApp(d.App)
		}
		if err != nil {
			return err
		}
		is := ""
		if live != nil {
			is = live.String()
		}
		if is != was {
			return changedMeanwhile(d.App)
		}
		row, err := q.Version(ctx, query.VersionParams{App: d.App, ID: key})
		if missing(err) {
			return unknownVersion(d.App, d.Version)
		}
		if err != nil {
			return err
		}
		versionNumber = row.Number
		if err := takeSecrets(ctx, q, d, key); err != nil {
			return err
		}
		if number, err = q.NextDeployment(ctx, d.App); err != nil {
			return err
		}
		err = q.AddDeployment(ctx, query.AddDeploymentParams{
			ID: id, CreatedAt: d.Created, Version: key, Number: number, App: d.App, Action: string(d.Action), Author: d.Author, Message: d.Message,
		})
		if err != nil {
			return err
		}
		if err := q.SetLive(ctx, query.SetLiveParams{App: d.App, Version: &key, Since: &d.Created}); err != nil {
			return err
		}
		event := subscribe.VersionDeployed
		if d.Action == deploy.ActionRollback {
			event = subscribe.VersionRolledBack
		}
		return subscriptions.Raise(ctx, tx, &subscribe.Fact{Event: event, Script: d.App, At: d.Created, Payload: map[string]any{
			"deploymentId": id.String(), "versionId": d.Version, "versionNumber": versionNumber, "previousVersionId": is,
			"author": d.Author, "message": d.Message,
		}})
	})
	if err != nil {
		return err
	}
	d.ID, d.Number, d.VersionNumber = id.String(), int(number), int(versionNumber)
	return nil
}

// takeSecrets makes what a version changes of the secrets of its app hold.
func takeSecrets(ctx context.Context, q *query.Queries, d *deploy.Deployment, version uuid.UUID) error {
	secrets, err := q.TakeVersionSecrets(ctx, version)
	if err != nil {
		return err
	}
	for i := range secrets {
		if secrets[i].Sealed == nil {
			_, err = q.DeleteSecret(ctx, query.DeleteSecretParams{App: d.App, Name: secrets[i].Name})
		} else {
			err = q.PutSecret(ctx, query.PutSecretParams{UpdatedAt: d.Created, App: d.App, Name: secrets[i].Name, Sealed: secrets[i].Sealed})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Deployments implements deploy.Store.
func (s *Store) Deployments(ctx context.Context, appName string, number, count int) ([]deploy.Deployment, error) {
	rows, err := s.read().Deployments(ctx, query.DeploymentsParams{App: appName, Before: before(number), Count: page(count)})
	if err != nil {
		return nil, session.Classify(err)
	}
	list := make([]deploy.Deployment, len(rows))
	for i := range rows {
		r := &rows[i]
		list[i] = deploy.Deployment{
			ID: r.ID.String(), Number: int(r.Number), App: r.App, Version: r.Version.String(), VersionNumber: int(r.VersionNumber),
			Created: r.CreatedAt.UTC(), Action: deploy.Action(r.Action), Author: r.Author, Message: r.Message,
		}
	}
	return list, nil
}

// DeleteApp implements deploy.Store.
func (s *Store) DeleteApp(ctx context.Context, name string) error {
	return s.transaction(ctx, func(tx pgx.Tx, q *query.Queries) error {
		if err := subscriptions.Forget(ctx, tx, name); err != nil {
			return err
		}
		n, err := q.DeleteApp(ctx, name)
		if err == nil && n == 0 {
			return unknownApp(name)
		}
		if err != nil {
			return err
		}
		if err := q.PruneBlobs(ctx); err != nil {
			return err
		}
		return subscriptions.Raise(ctx, tx, &subscribe.Fact{Event: subscribe.ScriptDeleted, Script: name, At: time.Now(), Payload: map[string]any{}})
	})
}
