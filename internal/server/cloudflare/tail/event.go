package tail

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/runlot/runlot/internal/engine/tail"
)

// event is an invocation in Cloudflare's shape.
type event struct {
	Outcome    string            `json:"outcome"`
	Script     string            `json:"scriptName"`
	Entrypoint *string           `json:"entrypoint"`
	Version    map[string]string `json:"scriptVersion,omitempty"`
	At         int64             `json:"eventTimestamp"`
	Wall       float64           `json:"wallTime"`
	CPU        float64           `json:"cpuTime"`
	Truncated  bool              `json:"truncated"`
	Exceptions []exception       `json:"exceptions"`
	Logs       []log             `json:"logs"`
	Event      json.RawMessage   `json:"event"`
}

type exception struct {
	Name    string `json:"name"`
	Message string `json:"message"`
	Stack   string `json:"stack"`
	At      int64  `json:"timestamp"`
}

type log struct {
	Level   string   `json:"level"`
	Message []string `json:"message"`
	At      int64    `json:"timestamp"`
}

func shape(i *tail.Invocation) *event {
	e := &event{
		Outcome: outcome(i.Outcome), Script: i.App, Version: map[string]string{"id": i.Version}, At: i.At.UnixMilli(), Wall: i.Wall, CPU: i.CPU,
		Truncated: i.Truncated, Exceptions: []exception{}, Logs: []log{}, Event: i.Event,
	}
	if i.Entrypoint != "" {
		e.Entrypoint = &i.Entrypoint
	}
	for n := range i.Exceptions {
		x := &i.Exceptions[n]
		e.Exceptions = append(e.Exceptions, exception{x.Name, x.Message, x.Stack, x.At.UnixMilli()})
	}
	for n := range i.Logs {
		l := &i.Logs[n]
		e.Logs = append(e.Logs, log{l.Level, []string{l.Text}, l.At.UnixMilli()})
	}
	return e
}

// left is the word to a reader that invocations were left out.
func left(app string, n int64) *event {
	text, err := json.Marshal(map[string]string{
		"type": "overload", "message": fmt.Sprintf("%d invocations of %s were left out: they come faster than this tail reads. A filter or a sampling rate makes them fewer.", n, app),
	})
	if err != nil {
		panic("tail: a word always marshals: " + err.Error())
	}
	return &event{Outcome: "unknown", Script: app, At: time.Now().UnixMilli(), Exceptions: []exception{}, Logs: []log{}, Event: text}
}
