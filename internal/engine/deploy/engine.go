package deploy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Options are what an Engine is made of; all fields are required.
type Options struct {
	Store  Store
	Runner Runner
	Sealer Sealer
	Log    *slog.Logger
}

// Engine uploads, deploys and rolls back. Its methods may be called from several goroutines; what changes an app takes
// its turn.
type Engine struct {
	o Options

	mu    sync.Mutex
	turns map[string]chan struct{} // by app, full while a change is under way; guarded by mu
	out   map[string]bool          // the apps that were not resumed, and do not run since; guarded by mu
}

// New returns an engine.
func New(o Options) *Engine {
	return &Engine{o: o, turns: map[string]chan struct{}{}, out: map[string]bool{}}
}

// turn waits until no other change of the app is under way. done ends the caller's turn.
func (e *Engine) turn(ctx context.Context, appName string) (done func(), err error) {
	e.mu.Lock()
	turn := e.turns[appName]
	if turn == nil {
		turn = make(chan struct{}, 1)
		e.turns[appName] = turn
	}
	e.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, fault.New(fault.Unavailable, "deploy_under_way", "another change of %s is under way", appName).WithCause(ctx.Err())
	}
}

// Upload is what becomes a version.
type Upload struct {
	Manifest   *app.Manifest
	Bundle     *app.Bundle
	ConfigFile string
	Author     string
	Message    string
	// Open lets what its author declares by Revise soon afterwards belong to this version.
	Open bool
	// Secrets are what the version changes of the secrets of its app, by name, once it becomes live; nil deletes one.
	Secrets map[string]*string
	// Inherited are such changes of another version, which go on where Secrets does not name them.
	Inherited []Secret
}

// Uploaded is a stored version and what a person should know about it.
type Uploaded struct {
	Version  *Version
	Warnings []string
	// Removed are the queues that the live version consumes and this one does not, and those that no app names any more.
	Removed []Orphans
}

// Check judges an upload as Add does, and stores nothing.
func (e *Engine) Check(ctx context.Context, u *Upload) (*Uploaded, error) {
	v, err := u.version()
	if err != nil {
		return nil, err
	}
	warnings, err := e.o.Runner.Check(ctx, v)
	if err != nil {
		return nil, err
	}
	removed, err := e.removed(ctx, v)
	return &Uploaded{Version: v, Warnings: warnings, Removed: removed}, err
}

// Add checks an upload and stores it as a new version. Nothing that runs changes.
func (e *Engine) Add(ctx context.Context, u *Upload) (*Uploaded, error) {
	uploaded, err := e.Check(ctx, u)
	if err != nil {
		return nil, err
	}
	v := uploaded.Version
	if v.Secrets, err = e.pending(ctx, u); err != nil {
		return nil, err
	}
	if u.Open {
		v.OpenUntil = v.Created.Add(queue.OpenVersion)
	}
	if err := e.o.Store.AddVersion(ctx, v, queue.KeptVersions); err != nil {
		return nil, err
	}
	e.note(ctx, EventUploaded, v.App, v.Author, about(v, "message", v.Message))
	return uploaded, nil
}

func (u *Upload) version() (*Version, error) {
	if utf8.RuneCountInString(u.Message) > queue.MaxDeployMessage {
		return nil, fault.New(fault.Invalid, "message_long", "the message has more than %d characters", queue.MaxDeployMessage).
			WithHint("say it shorter")
	}
	size := len(u.Bundle.SourceMap)
	for i := range u.Bundle.Modules {
		size += len(u.Bundle.Modules[i].Body)
	}
	if size > queue.MaxBundle {
		return nil, fault.New(fault.Limit, "bundle_size", "the code has %d bytes; the limit is %d", size, queue.MaxBundle)
	}
	return &Version{
		App: u.Manifest.Name, Created: now(), Author: u.Author, Message: u.Message, ConfigFile: u.ConfigFile,
		Digest: digest(u.Manifest, u.Bundle), Manifest: u.Manifest, Bundle: u.Bundle,
	}, nil
}

// now is the time as the store keeps it.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// digest names what runs.
func digest(m *app.Manifest, b *app.Bundle) string {
	sum := sha256.New()
	part := func(text string) { fmt.Fprintf(sum, "%d:%s", len(text), text) }
	part(m.Digest())
	for i := range b.Modules {
		part(b.Modules[i].Name)
		part(string(b.Modules[i].Kind))
		part(string(b.Modules[i].Body))
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// live returns the version that serves, nil when none does.
func (e *Engine) live(ctx context.Context, appName string) (*Version, error) {
	a, err := e.o.Store.App(ctx, appName)
	if fault.KindOf(err) == fault.NotFound || err == nil && a.Live == "" {
		return nil, nil //nolint:nilnil // an app without a live version is no error
	}
	if err != nil {
		return nil, err
	}
	return e.o.Store.Version(ctx, appName, a.Live)
}

// Request asks for a version to become live.
type Request struct {
	App string
	// Version is its id. For a rollback "" is the version that was live before the one that is.
	Version string
	Action  Action
	Author  string
	Message string
}

// Deploy makes a version live: it starts, is committed as the live one, and takes over; the one before finishes what it
// has in flight. A failure says at which step, and leaves the version before in place.
func (e *Engine) Deploy(ctx context.Context, r *Request) (*Deployment, error) {
	if utf8.RuneCountInString(r.Message) > queue.MaxDeployMessage {
		return nil, fault.New(fault.Invalid, "message_long", "the message has more than %d characters", queue.MaxDeployMessage)
	}
	done, err := e.turn(ctx, r.App)
	if err != nil {
		return nil, err
	}
	defer done()
	return e.deploy(ctx, r)
}

// deploy is Deploy, in the caller's turn.
func (e *Engine) deploy(ctx context.Context, r *Request) (*Deployment, error) {
	a, err := e.o.Store.App(ctx, r.App)
	if err != nil {
		return nil, err
	}
	id := r.Version
	if id == "" {
		if id, err = e.before(ctx, &a); err != nil {
			return nil, err
		}
	}
	v, err := e.o.Store.Version(ctx, r.App, id)
	if err != nil {
		return nil, err
	}
	var was *app.Manifest
	if a.Live != "" {
		live, err := e.o.Store.Version(ctx, r.App, a.Live)
		if err != nil {
			return nil, err
		}
		was = live.Manifest
	}
	d := &Deployment{App: r.App, Version: v.ID, Action: cmp.Or(r.Action, ActionDeploy), Author: r.Author, Message: r.Message, Created: now()}
	err = e.o.Runner.Switch(ctx, e.runnable(v), func(ctx context.Context) error { return e.o.Store.SetLive(ctx, d, a.Live) })
	if err != nil {
		if d.ID == "" {
			e.note(ctx, EventFailed, r.App, r.Author, about(v, "reason", fault.From(err).Error()))
			return nil, stays(err, &a)
		}
		e.o.Log.Warn("a deployed version does not run yet", "app", r.App, "version", v.ID, "error", fault.Detail(err))
	}
	e.left(r.App, false)
	kind := EventDeployed
	if d.Action == ActionRollback {
		kind = EventRolledBack
	}
	e.note(ctx, kind, r.App, r.Author, about(v, "message", r.Message))
	if was != nil {
		d.Removed = e.orphans(ctx, was, v.Manifest)
	}
	return d, nil
}

// runnable is a version as a runner takes it.
func (e *Engine) runnable(v *Version) *Runnable {
	light := *v
	light.Bundle = nil
	return &Runnable{Version: &light, Load: func(ctx context.Context) (*Loaded, error) {
		whole, err := e.o.Store.Version(ctx, light.App, light.ID)
		if err != nil {
			return nil, err
		}
		secrets, err := e.open(ctx, whole)
		if err != nil {
			return nil, err
		}
		return &Loaded{Bundle: whole.Bundle, Secrets: secrets}, nil
	}}
}

// stays adds to why a deployment failed what goes on.
func stays(err error, a *App) error {
	f := fault.From(err)
	if a.Live == "" || f.Kind == fault.Internal {
		return err
	}
	left := fmt.Sprintf("version %d goes on", a.LiveNumber)
	if f.Hint != "" {
		left = f.Hint + "; " + left
	}
	return f.WithHint("%s", left)
}

// before is the version that was live before the one that is.
func (e *Engine) before(ctx context.Context, a *App) (string, error) {
	list, err := e.o.Store.Deployments(ctx, a.Name, 0, queue.KeptVersions)
	if err != nil {
		return "", err
	}
	for i := range list {
		if list[i].Version != a.Live {
			return list[i].Version, nil
		}
	}
	return "", fault.New(fault.NotFound, CodeVersionUnknown, "%s has no earlier version to go back to", a.Name).
		WithHint("`runlot versions` lists those that there are")
}

// about is the detail of an event of a version, with one more entry.
func about(v *Version, name, value string) map[string]string {
	return map[string]string{"version": v.ID, "number": strconv.Itoa(v.Number), name: value}
}

// note records an event. What was done is done, so that a record that fails is the log's.
func (e *Engine) note(ctx context.Context, kind, appName, author string, detail map[string]string) {
	event := &Event{At: now(), Kind: kind, App: appName, Author: author, Detail: detail}
	if err := e.o.Store.AddEvent(context.WithoutCancel(ctx), event, queue.KeptEvents); err != nil {
		e.o.Log.Warn("an event was not recorded", "event", kind, "app", appName, "error", fault.Detail(err))
	}
}
