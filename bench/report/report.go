// Package report holds what was measured: it prints one line a figure and writes all of it as JSON.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Figure is one measured value with what it is compared to.
type Figure struct {
	// Name is group and subject: "engine/runlot".
	Name string `json:"name"`
	// Value is the median of Rounds.
	Value  float64   `json:"value"`
	Unit   string    `json:"unit"`
	Rounds []float64 `json:"rounds,omitempty"`
	// PerCPU is the median of the value per second of processor time, of all processes together; 0 where it means nothing.
	PerCPU float64 `json:"perCpuSecond,omitempty"`
	// CPU is where that time went in the median: cores busy by program.
	CPU map[string]float64 `json:"cores,omitempty"`
	// Targets are what the value has to reach.
	Targets []Target `json:"targets,omitempty"`
	// Note is what a reader has to know to read the value.
	Note string `json:"note,omitempty"`
}

// Target is one thing that a figure has to reach: a value, or a ratio to another figure of the same run.
type Target struct {
	// Peer is the figure that the ratio is to; "" when Want is a value.
	Peer string `json:"peer,omitempty"`
	// Want is the least ratio or value.
	Want float64 `json:"want"`
	// Got is what was measured, PerCPU the same ratio of the values per second of processor time.
	Got    float64 `json:"got"`
	PerCPU float64 `json:"perCpuSecond,omitempty"`
	Met    bool    `json:"met"`
}

// Machine is where the figures were measured.
type Machine struct {
	CPUs     int     `json:"cpus"`
	Model    string  `json:"model"`
	Memory   int64   `json:"memoryBytes"`
	Kernel   string  `json:"kernel"`
	Go       string  `json:"go"`
	Postgres string  `json:"postgres"`
	Workerd  string  `json:"workerd"`
	Load     float64 `json:"loadAverageBefore"`
}

// Report is one run.
type Report struct {
	Date    time.Time `json:"date"`
	Command string    `json:"command"`
	Machine Machine   `json:"machine"`
	Figures []*Figure `json:"figures"`

	out io.Writer
}

// New begins a report that prints to out.
func New(out io.Writer, command string, machine Machine) *Report {
	return &Report{Date: time.Now().UTC().Truncate(time.Second), Command: command, Machine: machine, out: out}
}

// Add prints a figure and keeps it. Its targets' peers have to be added before; a target whose peer is not there is left
// out.
func (r *Report) Add(f *Figure) {
	if len(f.Rounds) > 0 {
		f.Value = Median(f.Rounds)
	}
	f.Targets = slices.DeleteFunc(f.Targets, func(t Target) bool { return t.Peer != "" && r.find(t.Peer) == nil })
	for i := range f.Targets {
		t := &f.Targets[i]
		t.Got = f.Value
		if t.Peer != "" {
			peer := r.find(t.Peer)
			t.Got = ratio(f.Value, peer.Value)
			t.PerCPU = ratio(f.PerCPU, peer.PerCPU)
		}
		t.Met = t.Got >= t.Want
	}
	r.Figures = append(r.Figures, f)
	_, _ = fmt.Fprintln(r.out, f.line())
}

func (r *Report) find(name string) *Figure {
	i := slices.IndexFunc(r.Figures, func(f *Figure) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return r.Figures[i]
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// line is a figure as it is printed: name, value, unit, then each target with its ratio.
func (f *Figure) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-34s %12s %-6s", f.Name, number(f.Value), f.Unit)
	if f.PerCPU > 0 {
		fmt.Fprintf(&b, " %9s /cpu-s", number(f.PerCPU))
	}
	for _, t := range f.Targets {
		verdict := "met"
		if !t.Met {
			verdict = "MISSED"
		}
		switch {
		case t.Peer == "":
			fmt.Fprintf(&b, "  target %s %s", number(t.Want), verdict)
		case t.PerCPU > 0:
			fmt.Fprintf(&b, "  %.2f x %s (%.2f per cpu-s, target %.2f) %s", t.Got, t.Peer, t.PerCPU, t.Want, verdict)
		default:
			fmt.Fprintf(&b, "  %.2f x %s (target %.2f) %s", t.Got, t.Peer, t.Want, verdict)
		}
	}
	if f.Note != "" {
		fmt.Fprintf(&b, "  # %s", f.Note)
	}
	return b.String()
}

// number writes large values whole with separators and small ones with two places.
func number(v float64) string {
	if v < 100 {
		return fmt.Sprintf("%.2f", v)
	}
	digits := fmt.Sprintf("%.0f", v)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// Write writes the report as JSON, whole or not at all.
func (r *Report) Write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	part := filepath.Join(filepath.Dir(path), ".results.json.part")
	if err := os.WriteFile(part, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(part, path)
}

// Missed counts the targets that were not reached.
func (r *Report) Missed() (missed, targets int) {
	for _, f := range r.Figures {
		for _, t := range f.Targets {
			targets++
			if !t.Met {
				missed++
			}
		}
	}
	return missed, targets
}

// Median returns the middle of the values, 0 for none.
func Median(values []float64) float64 { return Quantile(values, 0.5) }

// Quantile returns the value below which the share q of the values lies, 0 for none.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	low := int(at)
	if low+1 == len(sorted) {
		return sorted[low]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}
