package r2

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/runlot/runlot/internal/adapter/sqlite/r2"
	"github.com/runlot/runlot/internal/core/fault"
	core "github.com/runlot/runlot/internal/core/r2"
)

// Rule says which events of a bucket are told to a queue.
type Rule = core.Rule

// EventTypes are the names of kinds of events.
var EventTypes = core.EventTypes

// Rules are the rules of the buckets in a state folder, which a daemon may use at the same time: it looks at them with each
// change of a bucket.
type Rules struct {
	state   string
	buckets *r2.Buckets
}

// OpenRules makes nothing. The caller closes it.
func OpenRules(state string, log *slog.Logger) *Rules {
	return &Rules{state, r2.New(filepath.Join(state, Folder), func(string) {}, log)}
}

// Close closes the files.
func (r *Rules) Close() { r.buckets.Close() }

// List returns the rules of a bucket.
func (r *Rules) List(ctx context.Context, bucket string) ([]Rule, error) {
	return r.buckets.Rules(ctx, bucket)
}

// Create adds a rule for kinds of events and returns it with its id.
func (r *Rules) Create(ctx context.Context, bucket string, rule Rule, kinds []string) (*Rule, error) {
	for _, kind := range kinds {
		actions := core.KindActions[kind]
		if actions == nil {
			return nil, fault.New(fault.Invalid, "r2_rule", "there are no events %q", kind).WithHint("name object-create or object-delete, or both with a comma between them")
		}
		rule.Actions = append(rule.Actions, actions...)
	}
	if err := rule.Check(bucket); err != nil {
		return nil, err
	}
	//nolint:gosec // the PostgreSQL of a root process runs as another user and has to pass through
	if err := os.MkdirAll(r.state, 0o711); err != nil {
		return nil, fault.New(fault.Environment, "state_unusable", "the state folder %s cannot be used", r.state).
			WithHint("name a folder that you may write to with --state").WithCause(err)
	}
	return &rule, r.buckets.AddRule(ctx, bucket, &rule)
}

// Delete deletes the rules of a bucket for a queue, or the one with this id, and returns how many there were.
func (r *Rules) Delete(ctx context.Context, bucket, queueName, id string) (int, error) {
	all, err := r.List(ctx, bucket)
	if err != nil {
		return 0, err
	}
	all = slices.DeleteFunc(all, func(rule Rule) bool { return id != "" && rule.ID != id || id == "" && rule.Queue != queueName })
	for i := range all {
		if _, err := r.buckets.DeleteRule(ctx, bucket, all[i].ID); err != nil {
			return i, err
		}
	}
	return len(all), nil
}
