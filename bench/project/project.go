// Package project writes the Workers projects that are measured: the same code for every runtime, and a wrangler
// configuration that all of them read.
package project

import (
	_ "embed"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/runlot/runlot/internal/core/queue"
)

//go:embed index.js
var code []byte

// Options say what a project does.
type Options struct {
	Name string
	// Sends gives it the producers, Receives the consumers.
	Sends, Receives bool
	// Plain leaves the code as it is, for a runtime that has no bundler at hand.
	Plain bool
}

type config struct {
	Name              string `json:"name"`
	Main              string `json:"main"`
	NoBundle          bool   `json:"no_bundle,omitempty"`
	CompatibilityDate string `json:"compatibility_date"`
	Queues            queues `json:"queues"`
}

type queues struct {
	Producers []producer `json:"producers,omitempty"`
	Consumers []consumer `json:"consumers,omitempty"`
}

type producer struct {
	Binding string `json:"binding"`
	Queue   string `json:"queue"`
}

type consumer struct {
	Queue           string `json:"queue"`
	MaxBatchSize    int    `json:"max_batch_size"`
	MaxBatchTimeout int    `json:"max_batch_timeout"`
}

// compatibilityDate is the newest that the pinned workerd knows.
const compatibilityDate = "2026-11-17"

// The files of a project.
const (
	ConfigFile = "wrangler.jsonc"
	CodeFile   = "index.js"
)

// Write makes the folder of a project. Batches of jobs may fill for a second; pings are delivered at once.
func Write(dir string, o Options) error {
	c := config{Name: o.Name, Main: CodeFile, NoBundle: o.Plain, CompatibilityDate: compatibilityDate}
	if o.Sends {
		c.Queues.Producers = []producer{{Binding: "JOBS", Queue: "jobs"}, {Binding: "PINGS", Queue: "pings"}}
	}
	if o.Receives {
		c.Queues.Consumers = []consumer{
			{Queue: "jobs", MaxBatchSize: queue.MaxBatchSize, MaxBatchTimeout: 1},
			{Queue: "pings", MaxBatchSize: queue.DefaultBatchSize},
		}
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, ConfigFile), text, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, CodeFile), code, 0o644)
}
