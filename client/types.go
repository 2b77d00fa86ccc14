package client

import (
	"time"

	"github.com/runlot/runlot/client/internal/call"
)

// Error is what the server answers when it refuses or fails.
type Error = call.Error

// Whoami is who a token belongs to, and where.
type Whoami struct {
	Token Token `json:"token"`
	// Account is the id in Cloudflare's paths.
	Account string `json:"account"`
	// Version is that of the server.
	Version string `json:"version"`
}

// Token is an API token without its text.
type Token struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Role string `json:"role" enum:"read,deploy,admin"`
	// App is the only app that the token opens; "" is every app.
	App     string     `json:"app,omitempty"`
	Created time.Time  `json:"created"`
	Expires *time.Time `json:"expires,omitempty"`
	Used    *time.Time `json:"used,omitempty" doc:"When it was last used, to the minute."`
}

// NewToken asks for a token.
type NewToken struct {
	Name string `json:"name" minLength:"1" maxLength:"100" doc:"Who or what it is for."`
	Role string `json:"role" enum:"read,deploy,admin"`
	App  string `json:"app,omitempty" doc:"The only app that it opens."`
	// Expires is when it becomes worthless; nil is never.
	Expires *time.Time `json:"expires,omitempty"`
}

// CreatedToken is a new token with its text, which is shown this once.
type CreatedToken struct {
	Token

	Text string `json:"text" doc:"What the caller has to keep: it is not shown again."`
}

// App is an app and how it is doing.
type App struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	// Live is the version that serves; nil when none was deployed.
	Live *VersionRef `json:"live,omitempty"`
	// State is what its process does: "live", "parked", "starting", "restarting" or "stopped".
	State string    `json:"state" enum:"live,parked,starting,restarting,stopped"`
	Since time.Time `json:"since" doc:"When it came into this state."`
	// Reason is why it does not run, when it should.
	Reason   string `json:"reason,omitempty"`
	Restarts int    `json:"restarts"`
	// URLs are its public addresses.
	URLs []string `json:"urls"`
	// MemoryBytes is that of its process; 0 when there is none.
	MemoryBytes int64 `json:"memory_bytes"`
	// Requests counts the public requests since the server started.
	Requests int64 `json:"requests"`
	// Database is the name of its database; "" when it uses none.
	Database  string     `json:"database,omitempty"`
	Producers []Producer `json:"producers"`
	Consumers []Consumer `json:"consumers"`
	// Messages counts the unsettled messages of the queues that it consumes; -1 when that is not known.
	Messages int64 `json:"messages"`
}

// VersionRef names a version.
type VersionRef struct {
	ID     string `json:"id"`
	Number int    `json:"number"`
}

// Producer is a binding that sends to a queue.
type Producer struct {
	Binding string `json:"binding"`
	Queue   string `json:"queue"`
}

// Consumer is a queue that the app's handler drains.
type Consumer struct {
	Queue           string `json:"queue"`
	DeadLetterQueue string `json:"dead_letter_queue,omitempty"`
}

// Version is an upload of an app.
type Version struct {
	ID         string     `json:"id"`
	Number     int        `json:"number"`
	App        string     `json:"app"`
	Created    time.Time  `json:"created"`
	Author     string     `json:"author"`
	Message    string     `json:"message,omitempty"`
	ConfigFile string     `json:"config_file"`
	Digest     string     `json:"digest"`
	Live       bool       `json:"live"`
	Database   string     `json:"database,omitempty"`
	Producers  []Producer `json:"producers"`
	Consumers  []Consumer `json:"consumers"`
}

// Module is one file of a version's code.
type Module struct {
	Name string
	// Kind is "esModule", "text", "data" or "wasm".
	Kind string
	Body []byte
}

// Upload is what becomes a version.
type Upload struct {
	App string
	// ConfigFile is the name of the configuration file, "runlot.json" for example, Config its text, and Env the environment
	// of a wrangler file.
	ConfigFile string
	Config     []byte
	Env        string
	Message    string
	// Modules are the code; the first one is the main module.
	Modules       []Module
	SourceMap     []byte
	ServiceWorker bool
	// CheckOnly stores nothing.
	CheckOnly bool
}

// Uploaded is a stored version, or one that could be, and what a person should know of it.
type Uploaded struct {
	Version  Version  `json:"version"`
	Warnings []string `json:"warnings"`
	// Removed are queues that lose their consumer when the version becomes live, and those with messages that no app names then.
	Removed []Orphans `json:"removed"`
}

// DeletedApp is what is left of an app that was deleted.
type DeletedApp struct {
	// Left are the queues whose messages nobody consumes now.
	Left []Orphans `json:"left"`
}

// Orphans are messages that wait until an app consumes their queue again.
type Orphans struct {
	Queue string `json:"queue"`
	// Messages is how many wait; -1 when that is not known.
	Messages int64 `json:"messages"`
	// Undeclared says that the queue had no consumer before either, and that no app names it any more.
	Undeclared bool `json:"undeclared,omitempty"`
}

// Deploy asks for a version to become live.
type Deploy struct {
	// Version is its id; "" with Rollback is the version that was live before.
	Version  string `json:"version,omitempty"`
	Rollback bool   `json:"rollback,omitempty" doc:"Marks a return to an earlier version."`
	Message  string `json:"message,omitempty" maxLength:"1000"`
}

// Deployment is the event that a version became live.
type Deployment struct {
	ID      string     `json:"id"`
	Number  int        `json:"number"`
	App     string     `json:"app"`
	Version VersionRef `json:"version"`
	Created time.Time  `json:"created"`
	Action  string     `json:"action" enum:"deploy,rollback"`
	Author  string     `json:"author"`
	Message string     `json:"message,omitempty"`
	// URLs are the app's public addresses.
	URLs []string `json:"urls"`
	// Removed are queues that lost their consumer by the deployment, and those with messages that no app names any more. It
	// is in the answer to the deployment alone.
	Removed []Orphans `json:"removed,omitempty"`
}

// Secret is a secret without its value.
type Secret struct {
	Name    string    `json:"name"`
	Updated time.Time `json:"updated"`
}

// PutSecret sets a secret.
type PutSecret struct {
	Value string `json:"value" maxLength:"130048"`
}

// Event is one line of what was done.
type Event struct {
	ID     int64             `json:"id"`
	At     time.Time         `json:"at"`
	Kind   string            `json:"kind" example:"version.deployed"`
	App    string            `json:"app,omitempty"`
	Author string            `json:"author"`
	Detail map[string]string `json:"detail"`
}
