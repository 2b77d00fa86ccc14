package deploy

import (
	"context"
	"time"

	"github.com/runlot/runlot/internal/core/app"
)

// App is an app that was uploaded at least once.
type App struct {
	Name    string
	Created time.Time
	// Live is the id of the version that serves, and LiveNumber its number; "" and 0 when none does. Since is when it became live.
	Live       string
	LiveNumber int
	Since      time.Time
}

// Version is an upload of an app. It never changes, but for what is declared while it is open.
type Version struct {
	// ID is a UUID, unique everywhere; Number counts the app's versions from 1. The store gives both.
	ID      string
	Number  int
	App     string
	Created time.Time
	// Author is who uploaded it, and Message what they said of it.
	Author  string
	Message string
	// ConfigFile is the name of the configuration file that Manifest was compiled from, "runlot.json" for example.
	ConfigFile string
	// Digest is equal for equal manifests and code.
	Digest   string
	Manifest *app.Manifest
	// Bundle is the code; nil in lists.
	Bundle *app.Bundle
	// Live says that it is the one that serves, as of the time it was read.
	Live bool
	// OpenUntil is until when a Revision of its author belongs to this version; the zero time when it makes another one.
	OpenUntil time.Time
	// Secrets are what it changes of the secrets of its app, once it becomes live; one without Sealed is deleted. Nil in lists,
	// and from the time on at which it became live.
	Secrets []Secret
}

// Action is why a version became live.
type Action string

// The actions.
const (
	ActionDeploy   Action = "deploy"
	ActionRollback Action = "rollback"
)

// Deployment is the event that a version became live.
type Deployment struct {
	// ID is a UUID; Number counts the app's deployments from 1. The store gives both.
	ID      string
	Number  int
	App     string
	Version string
	// VersionNumber is the number of Version; the store fills it in.
	VersionNumber int
	Created       time.Time
	Action        Action
	Author        string
	Message       string
	// Removed are the queues that lost by it, as of the moment behind the switch; an Engine fills it in, and no store keeps it.
	Removed []Orphans
}

// Secret is a sealed secret of an app.
type Secret struct {
	Name    string
	Updated time.Time
	Sealed  []byte
}

// Event is one line of what was done.
type Event struct {
	ID     int64
	At     time.Time
	Kind   string
	App    string
	Author string
	// Detail is what else there is to know, by name.
	Detail map[string]string
}

// The kinds of event.
const (
	EventUploaded      = "version.uploaded"
	EventAmended       = "version.amended"
	EventDeployed      = "version.deployed"
	EventRolledBack    = "version.rolled_back"
	EventFailed        = "deploy.failed"
	EventDeleted       = "app.deleted"
	EventSecretPut     = "secret.put"
	EventSecretDeleted = "secret.deleted"
	EventTokenCreated  = "token.created"
	EventTokenRevoked  = "token.revoked"
)

// The kinds of event of queues. Sends and looks leave none.
const (
	EventQueuePaused     = "queue.paused"
	EventQueueResumed    = "queue.resumed"
	EventRetentionSet    = "queue.retention_set"
	EventDelaySet        = "queue.delay_set"
	EventQueuePurged     = "queue.purged"
	EventQueueRedriven   = "queue.redriven"
	EventQueueCreated    = "queue.created"
	EventQueueDeleted    = "queue.deleted"
	EventConsumerSet     = "consumer.set"
	EventConsumerRemoved = "consumer.removed"
	EventMessagesDeleted = "messages.deleted"
	EventMessagesRetried = "messages.retried"

	EventSubscriptionCreated = "subscription.created"
	EventSubscriptionChanged = "subscription.changed"
	EventSubscriptionDeleted = "subscription.deleted"
	EventUndone              = "messages.undone"
)

// Codes of the faults of a Store.
const (
	CodeAppUnknown     = "app_unknown"
	CodeVersionUnknown = "version_unknown"
	CodeSecretUnknown  = "secret_unknown"
	CodeLiveChanged    = "live_changed"
	// CodeAppNeeded is that of an Engine: other apps depend on the one that is to be deleted.
	CodeAppNeeded = "app_needed"
)

// Store keeps what is known of apps. A method that returns nil has committed. Faults: NotFound for what does not exist,
// Unavailable for what is worth another try.
type Store interface {
	// Apps returns every app in order of name.
	Apps(ctx context.Context) ([]App, error)
	// App returns one app, or CodeAppUnknown.
	App(ctx context.Context, name string) (App, error)
	// AddVersion stores a version and its app if it is new, and fills in ID and Number. It forgets the app's oldest
	// versions beyond keep, but never the live one.
	AddVersion(ctx context.Context, v *Version, keep int) error
	// Version returns a version with its bundle, or CodeVersionUnknown.
	Version(ctx context.Context, appName, id string) (*Version, error)
	// Versions returns up to count versions with numbers below before, newest first, without bundles. Before 0 is all.
	Versions(ctx context.Context, appName string, before, count int) ([]Version, error)
	// AmendVersion stores another manifest and digest of the live version, unless it is not the live one or its digest is
	// another than was: then it fails with CodeLiveChanged.
	AmendVersion(ctx context.Context, v *Version, was string) error
	// SetLive makes d.Version live, with its Secrets, unless another than was is ("" for none): then it fails with
	// CodeLiveChanged. It fills in the ID, Number and VersionNumber of d.
	SetLive(ctx context.Context, d *Deployment, was string) error
	// Deployments returns up to count deployments with numbers below before, newest first. Before 0 is all.
	Deployments(ctx context.Context, appName string, before, count int) ([]Deployment, error)
	// DeleteApp forgets an app with all that belongs to it. Messages are not in this store.
	DeleteApp(ctx context.Context, name string) error
	// Secrets returns the sealed secrets of an app in order of name.
	Secrets(ctx context.Context, appName string) ([]Secret, error)
	PutSecret(ctx context.Context, appName string, s *Secret) error
	// DeleteSecret fails with CodeSecretUnknown when there is none of that name.
	DeleteSecret(ctx context.Context, appName, name string) error
	// AddEvent records what was done, and forgets the oldest events beyond keep.
	AddEvent(ctx context.Context, e *Event, keep int) error
	// Events returns up to count events with ids below before, newest first, of one app or, for "", of all. Before 0 is all.
	Events(ctx context.Context, appName string, before int64, count int) ([]Event, error)
}

// Sealer encrypts secrets. The name of the app and of the secret are bound to what comes out.
type Sealer interface {
	Seal(appName, name, value string) ([]byte, error)
	Open(appName, name string, sealed []byte) (string, error)
}

// Runnable is a version that is to run. Its Bundle is nil: Load fetches what is large or secret when a process starts.
type Runnable struct {
	*Version

	Load func(ctx context.Context) (*Loaded, error)
}

// Loaded is what a process of a version is started with.
type Loaded struct {
	Bundle  *app.Bundle
	Secrets map[string]string
}

// Runner runs the live versions. One call for each app at a time.
type Runner interface {
	// Check refuses a version that could not run, for a reason that is known before it is tried: a queue that another app
	// consumes, code that does not start, a handler that is missing. Nothing that runs is touched. The warnings are for a person.
	Check(ctx context.Context, v *Version) (warnings []string, err error)
	// Switch starts a version, calls commit when it is ready to serve, and gives it the traffic and the queues when commit
	// returned nil. On any error nothing has changed, unless commit had returned nil: then there is no way back, the error is
	// what keeps the version from running, and it is tried again until it runs.
	Switch(ctx context.Context, v *Runnable, commit func(context.Context) error) error
	// Resume makes a version that was live before this program started the one that runs, and returns without waiting for it.
	Resume(ctx context.Context, v *Runnable) error
	// Remove stops an app for good. Its messages stay.
	Remove(ctx context.Context, appName string) error
	// Running are the manifests of the live versions, parked or not.
	Running() []*app.Manifest
	// Waiting is the number of messages in a queue of a database; -1 when it is not known.
	Waiting(ctx context.Context, database, queue string) int64
}
