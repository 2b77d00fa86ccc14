// Package trigger runs a scheduled handler on request, at the path that Cloudflare's tools have for it. It is for
// development: whoever reaches the app can use it.
package trigger

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/schedule"
)

// Path is where the handler is run: with the query cron (any text; "" by default), time (milliseconds since 1970; now by
// default) and format (json, or a word as text).
const Path = "/cdn-cgi/handler/scheduled"

// Answer is what the path answers in JSON. Outcome is "ok" or "exception", as in Cloudflare's tools; the rest says more.
type Answer struct {
	Outcome string `json:"outcome"`
	NoRetry bool   `json:"noRetry"`
	// Run is the outcome as runs are recorded.
	Run           queue.Outcome `json:"run"`
	Cron          string        `json:"cron"`
	ScheduledTime int64         `json:"scheduledTime"`
	Milliseconds  float64       `json:"milliseconds"`
	// Error is what the handler threw, Location where; Reason is why it did not run or end.
	Error    string `json:"error,omitempty"`
	Location string `json:"location,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// Fire runs the handler of the app; schedule.Scheduler.Fire does.
type Fire func(ctx context.Context, cron string, at time.Time) (*schedule.Record, error)

// New returns what serves Path.
func New(fire Fire, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		at := time.Now()
		if text := query.Get("time"); text != "" {
			ms, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				http.Error(w, "time is a number of milliseconds since 1970, not "+strconv.Quote(text), http.StatusBadRequest)
				return
			}
			at = time.UnixMilli(ms)
		}
		record, err := fire(r.Context(), query.Get("cron"), at)
		if err != nil {
			log.Debug("a scheduled handler was not run on request", "error", fault.Detail(err))
			http.Error(w, fault.From(err).Error(), http.StatusServiceUnavailable)
			return
		}
		answer := answerOf(record)
		status := http.StatusOK
		if record.Outcome != queue.OK {
			status = http.StatusInternalServerError
		}
		if query.Get("format") == "json" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(answer)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer.Outcome))
	})
}

func answerOf(r *schedule.Record) *Answer {
	a := &Answer{
		Outcome: "exception", NoRetry: r.NoRetry, Run: r.Outcome, Cron: r.Cron, ScheduledTime: r.At.UnixMilli(),
		Milliseconds: float64(r.Duration.Microseconds()) / 1000, Reason: r.Reason,
	}
	if r.Outcome == queue.OK {
		a.Outcome = "ok"
	}
	if e := r.Error; e != nil {
		a.Error, a.Location = e.Name+": "+e.Message, e.Location
	}
	return a
}
