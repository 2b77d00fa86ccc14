package r2

import (
	"slices"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Actions of events.
const (
	PutObject        = "PutObject"
	CompleteUpload   = "CompleteMultipartUpload"
	CopyObject       = "CopyObject"
	DeleteObject     = "DeleteObject"
	LifecycleRemoval = "LifecycleDeletion"
)

// EventTypes are the names of kinds of events, and KindActions the actions of each.
var (
	EventTypes  = []string{"object-create", "object-delete"}
	KindActions = map[string][]string{
		"object-create": {PutObject, CopyObject, CompleteUpload},
		"object-delete": {DeleteObject, LifecycleRemoval},
	}
)

// Event is a change of an object. It is told to each queue that a rule names, at least once, after the change is durable.
type Event struct {
	Action, Bucket, Key string
	// Size and Etag are those of the new object; nil and "" when there is none.
	Size *int64
	Etag string
	Time time.Time
}

// Rule says which events of a bucket are told to a queue.
type Rule struct {
	ID          string   `json:"id"`
	Database    string   `json:"database"`
	Queue       string   `json:"queue"`
	Prefix      string   `json:"prefix,omitempty"`
	Suffix      string   `json:"suffix,omitempty"`
	Actions     []string `json:"actions"`
	Description string   `json:"description,omitempty"`
	// Created is when the rule was made.
	Created time.Time `json:"created"`
}

// Wants reports whether the rule is for an action on a key.
func (r *Rule) Wants(action, key string) bool {
	return slices.Contains(r.Actions, action) && strings.HasPrefix(key, r.Prefix) && strings.HasSuffix(key, r.Suffix)
}

// Check refuses a rule for a bucket that means nothing.
func (r *Rule) Check(bucket string) error {
	if !ValidBucket(bucket) {
		return fault.New(fault.Invalid, "r2_bucket", "%q is no bucket: %s", bucket, BucketRule)
	}
	if !queue.ValidName(r.Queue) || !queue.ValidName(r.Database) {
		return fault.New(fault.Invalid, "r2_rule", "%q of database %q cannot be a queue: %s", r.Queue, r.Database, queue.NameRule).
			WithHint("name a queue with --queue")
	}
	if len(r.Actions) == 0 {
		return fault.New(fault.Invalid, "r2_rule", "a rule names the events that it is for").WithHint("add --event-type object-create, or object-delete")
	}
	for _, action := range r.Actions {
		if !slices.Contains(KindActions[EventTypes[0]], action) && !slices.Contains(KindActions[EventTypes[1]], action) {
			return fault.New(fault.Invalid, "r2_rule", "there is no action %q", action).
				WithHint("the actions are %s", strings.Join(slices.Concat(KindActions[EventTypes[0]], KindActions[EventTypes[1]]), ", "))
		}
	}
	const longest = 1_024
	if len(r.Prefix) > queue.R2KeyBytes || len(r.Suffix) > queue.R2KeyBytes || len(r.Description) > longest {
		return fault.New(fault.Invalid, "r2_rule", "a prefix, a suffix or a description of a rule has at most %d bytes", queue.R2KeyBytes)
	}
	return nil
}

// Destination is where an event goes.
type Destination struct {
	Database string `json:"database"`
	Queue    string `json:"queue"`
}
