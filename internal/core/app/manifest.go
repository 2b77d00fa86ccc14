// Package app is what one deployed Workers project declares, in Runlot's own form. Both configuration dialects compile
// to a Manifest; nothing behind the config packages knows which file an app was written with.
package app

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// DefaultDatabase is the database of apps that name none; all apps of the wrangler dialect share it unless they say otherwise.
const DefaultDatabase = "default"

// Manifest is an app's declaration, complete: every default is filled in.
type Manifest struct {
	Name    string        `json:"name"`
	Dialect queue.Dialect `json:"dialect"`
	// Main is the entry module, as a slash-separated path relative to the project folder. "" means no code.
	Main string `json:"main,omitempty"`
	// Database names the PostgreSQL database that holds the app's queues and remembers its scheduled runs. "" means the app
	// uses none.
	Database string `json:"database,omitempty"`
	// DatabaseBinding is the name in env under which the app reaches its database itself; "" means not at all.
	DatabaseBinding    string     `json:"databaseBinding,omitempty"`
	CompatibilityDate  string     `json:"compatibilityDate"`
	CompatibilityFlags []string   `json:"compatibilityFlags,omitempty"`
	Producers          []Producer `json:"producers,omitempty"`
	// Consumers are the queues that the app's queue handler drains, at most one entry for a queue.
	Consumers []queue.Consumer `json:"consumers,omitempty"`
	// D1Databases are the bindings in env to D1 databases.
	D1Databases []D1Database `json:"d1Databases,omitempty"`
	// KVNamespaces are the bindings in env to KV namespaces.
	KVNamespaces []KVNamespace `json:"kvNamespaces,omitempty"`
	// R2Buckets are the bindings in env to R2 buckets.
	R2Buckets []R2Bucket `json:"r2Buckets,omitempty"`
	// DurableObjects are its classes of Durable Objects; nil when it has none and had none.
	DurableObjects *Objects `json:"durableObjects,omitempty"`
	// Crons are the expressions of core/cron at whose times the app's scheduled handler runs, each once.
	Crons []string `json:"crons,omitempty"`
	// Vars are plain values of env, as JSON; a JSON string arrives as a string.
	Vars map[string]json.RawMessage `json:"vars,omitempty"`
}

// Producer is a binding in env that sends to a queue.
type Producer struct {
	Binding string `json:"binding"`
	Queue   string `json:"queue"`
	// DeliveryDelay is the delay of each message for which the call names none; nil means none.
	DeliveryDelay *time.Duration `json:"deliveryDelay,omitempty"`
}

// Digest identifies the manifest's content: equal manifests have equal digests.
func (m *Manifest) Digest() string {
	text, err := json.Marshal(m)
	if err != nil {
		panic("app: a manifest always marshals: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Names reports whether the app names a queue of a database: as a producer, a consumer or for dead letters.
func (m *Manifest) Names(database, queueName string) bool {
	return m.Database == database && slices.Contains(m.Queues(), queueName)
}

// Queues returns every queue that the app names, each once: produced, consumed, and dead-letter queues.
func (m *Manifest) Queues() []string {
	seen := map[string]bool{}
	var names []string
	add := func(name string) {
		if name != "" && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	for i := range m.Producers {
		add(m.Producers[i].Queue)
	}
	for i := range m.Consumers {
		add(m.Consumers[i].Queue)
	}
	for i := range m.Consumers {
		add(m.Consumers[i].DeadLetterQueue)
	}
	return names
}

// DeadLetterQueues are the dead-letter queues of a database that manifests name, by the queue that they belong to.
func DeadLetterQueues(manifests []*Manifest, database string) map[string]string {
	dead := map[string]string{}
	for _, m := range manifests {
		for i := range m.Consumers {
			if c := &m.Consumers[i]; m.Database == database && c.DeadLetterQueue != "" {
				dead[c.Queue] = c.DeadLetterQueue
			}
		}
	}
	return dead
}
