package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestQuantile(t *testing.T) {
	for _, test := range []struct {
		values []float64
		q      float64
		want   float64
	}{
		{nil, 0.5, 0},
		{[]float64{7}, 0.99, 7},
		{[]float64{3, 1, 2}, 0.5, 2},
		{[]float64{4, 1, 2, 3}, 0.5, 2.5},
		{[]float64{0, 10}, 0.9, 9},
		{[]float64{5, 1}, 1, 5},
	} {
		if got := Quantile(test.values, test.q); got != test.want {
			t.Errorf("Quantile(%v, %g) = %g, want %g", test.values, test.q, got, test.want)
		}
	}
}

// TestTargets: a ratio is to the peer of the same run, what is too low is missed, and a peer that was not measured is no
// target at all.
func TestTargets(t *testing.T) {
	var out bytes.Buffer
	r := New(&out, "make bench", Machine{CPUs: 2})
	r.Add(&Figure{Name: "peer", Rounds: []float64{90, 100, 900}, Unit: "msg/s", PerCPU: 50})
	r.Add(&Figure{Name: "ours", Rounds: []float64{450}, Unit: "msg/s", PerCPU: 400, Targets: []Target{
		{Peer: "peer", Want: 4}, {Peer: "absent", Want: 2}, {Want: 1_000},
	}})
	ours := r.Figures[1]
	if len(ours.Targets) != 2 {
		t.Fatalf("targets %+v, want those of the peer and of the value", ours.Targets)
	}
	if got := ours.Targets[0]; got.Got != 4.5 || got.PerCPU != 8 || !got.Met {
		t.Errorf("ratio %+v, want 4.5 and 8 per CPU-second, met", got)
	}
	if got := ours.Targets[1]; got.Got != 450 || got.Met {
		t.Errorf("value %+v, want 450, missed", got)
	}
	if missed, targets := r.Missed(); missed != 1 || targets != 2 {
		t.Errorf("%d of %d missed, want 1 of 2", missed, targets)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines, want one for each figure:\n%s", len(lines), out.String())
	}
	for _, part := range []string{"ours", "450 msg/s", "4.50 x peer", "target 4.00) met", "target 1,000 MISSED"} {
		if !strings.Contains(lines[1], part) {
			t.Errorf("the line %q does not say %q", lines[1], part)
		}
	}
}

func TestWrite(t *testing.T) {
	r := New(&bytes.Buffer{}, "make bench", Machine{CPUs: 2})
	r.Add(&Figure{Name: "a", Rounds: []float64{1, 2, 3}, Unit: "msg/s"})
	path := filepath.Join(t.TempDir(), "results.json")
	if err := r.Write(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if back.Machine.CPUs != 2 || len(back.Figures) != 1 || back.Figures[0].Value != 2 {
		t.Errorf("read back %+v", back)
	}
}
