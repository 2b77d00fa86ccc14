// Package invocation reads what the tail of a worker process tells of one call of a handler while somebody follows the app.
package invocation

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/adapter/workerd/reason"
	"github.com/runlot/runlot/internal/engine/tail"
)

// The paths at which a process is told whether somebody follows it.
const (
	onPath  = "/watch"
	offPath = "/unwatch"
)

// Watch makes the process behind a router's socket tell of every invocation, or only of those that have something to say.
func Watch(ctx context.Context, router *http.Client, on bool) error {
	path := offPath
	if on {
		path = onPath
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://router"+path, http.NoBody)
	if err != nil {
		return err
	}
	response, err := router.Do(r)
	if err != nil {
		return fmt.Errorf("tell a process who follows it: %w", err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		return fmt.Errorf("tell a process who follows it: it answered %d", response.StatusCode)
	}
	return nil
}

// told is one invocation as the tail posts it.
type told struct {
	Outcome    string          `json:"outcome"`
	Entrypoint string          `json:"entrypoint"`
	Timestamp  int64           `json:"timestamp"`
	Wall       float64         `json:"wall"`
	CPU        float64         `json:"cpu"`
	Truncated  bool            `json:"truncated"`
	Event      json.RawMessage `json:"event"`
	Exceptions []struct {
		Timestamp int64  `json:"timestamp"`
		Name      string `json:"name"`
		Message   string `json:"message"`
		Stack     string `json:"stack"`
	} `json:"exceptions"`
	Logs []struct {
		Timestamp int64  `json:"timestamp"`
		Level     string `json:"level"`
		Text      string `json:"text"`
	} `json:"logs"`
}

// Hand reads a post and hands it on. Stacks get the places in the user's sources, and failures their reasons.
func Hand(body []byte, sources reason.MapStack, explain func(string) string, to func(*tail.Invocation)) error {
	var t told
	if err := json.Unmarshal(body, &t); err != nil {
		return err
	}
	i := &tail.Invocation{
		Entrypoint: t.Entrypoint, Outcome: t.Outcome, At: time.UnixMilli(t.Timestamp), Wall: t.Wall, CPU: t.CPU, Truncated: t.Truncated, Event: t.Event,
		Exceptions: make([]tail.Exception, len(t.Exceptions)), Logs: make([]tail.Log, len(t.Logs)),
	}
	for n := range t.Exceptions {
		e := &t.Exceptions[n]
		stack, _ := reason.Map(sources, e.Stack)
		i.Exceptions[n] = tail.Exception{At: time.UnixMilli(e.Timestamp), Name: e.Name, Message: explain(e.Message), Stack: stack}
	}
	if len(t.Exceptions) > 0 && i.Outcome == "ok" {
		i.Outcome = "exception" // where the trace of a delivery lacks what its handler throws
	}
	for n := range t.Logs {
		text := explain(t.Logs[n].Text)
		if strings.Contains(text, "\n    at ") {
			text, _ = reason.Map(sources, text)
		}
		i.Logs[n] = tail.Log{At: time.UnixMilli(t.Logs[n].Timestamp), Level: t.Logs[n].Level, Text: text}
	}
	to(i)
	return nil
}
