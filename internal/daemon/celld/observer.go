package celld

import (
	"context"
	"log/slog"

	"github.com/runlot/runlot/internal/adapter/workerd"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/dispatch"
	"github.com/runlot/runlot/internal/engine/schedule"
)

// observer writes what happens to the log.
type observer struct {
	log *slog.Logger
	// told takes scheduled runs too; batches come to it with their databases.
	told schedule.Recorder
}

// Progress implements node.Observer.
func (o *observer) Progress(step string) { o.log.Info(step) }

// Notice implements node.Observer.
func (o *observer) Notice(text string) { o.log.Warn(text) }

// Down implements node.Observer.
func (o *observer) Down(app, reason string) {
	o.log.Error("an app's process ended; it is started again", "app", app, "reason", reason)
}

// Batch implements dispatch.Recorder. What went well is for those who want to see everything.
func (o *observer) Batch(r *dispatch.Record) {
	level, rest := slog.LevelWarn, []any{}
	if r.Outcome == queue.OK {
		level = slog.LevelDebug
	}
	if r.Error != nil {
		rest = append(rest, "error", r.Error.Name+": "+r.Error.Message, "location", r.Error.Location)
	}
	if r.Reason != "" {
		rest = append(rest, "reason", r.Reason)
	}
	o.log.Log(context.Background(), level, "batch", append([]any{
		"app", r.App, "queue", r.Queue, "outcome", string(r.Outcome), "delivery", r.Delivery, "version", r.Version,
		"duration_ms", r.Duration.Milliseconds(), "delivered", r.Delivered, "acked", r.Acked, "retried", r.Retried, "dead", r.Dead, "dropped", r.Dropped,
	}, rest...)...)
}

// Run implements schedule.Recorder. What went well is for those who want to see everything.
func (o *observer) Run(r *schedule.Record) {
	o.told.Run(r)
	level, rest := slog.LevelWarn, []any{}
	if r.Outcome == queue.OK {
		level = slog.LevelDebug
	}
	if r.Error != nil {
		rest = append(rest, "error", r.Error.Name+": "+r.Error.Message, "location", r.Error.Location)
	}
	if r.Reason != "" {
		rest = append(rest, "reason", r.Reason)
	}
	if !r.Retry.IsZero() {
		rest = append(rest, "retry_at", r.Retry)
	}
	o.log.Log(context.Background(), level, "scheduled run", append([]any{
		"app", r.App, "cron", r.Cron, "occurrence", r.At, "outcome", string(r.Outcome), "attempt", r.Attempt, "missed", r.Missed, "version", r.Version,
		"duration_ms", r.Duration.Milliseconds(),
	}, rest...)...)
}

var levels = map[string]slog.Level{"debug": slog.LevelDebug, "warn": slog.LevelWarn, "error": slog.LevelError}

// Line implements node.Observer. What a Worker logs is below what its operator has to know, so that its errors are
// warnings here at most.
func (o *observer) Line(app string, line *workerd.Line) {
	o.log.Log(context.Background(), min(levels[line.Level], slog.LevelWarn), line.Text, "app", app, "event", line.Event)
}
