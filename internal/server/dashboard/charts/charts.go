// Package charts makes the charts of a queue's page from its series: the numbers for whoever draws them, and the words.
package charts

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/server/dashboard/view"
)

// Chart is a drawing of lines over time.
type Chart struct {
	ID, Title string
	Lines     []Line
	// Data is what the script draws, as JSON: times, a list for each line, and the unit. Words say the same in short.
	Data, Words string
}

// Line is one line of a chart.
type Line struct {
	Name string
	// Last is its newest value, in words.
	Last string

	values []*float64
}

// measure is what one line shows of a point; nil where there is nothing to show.
type measure struct {
	name string
	of   func(p *client.SeriesPoint) *float64
}

func number[N int | int64 | float64](n N) *float64 { f := float64(n); return &f }

// Of are the charts of a series.
func Of(series *client.Series) []Chart {
	step := time.Duration(max(series.StepSeconds, 1)) * time.Second
	rate := func(p *client.SeriesPoint, n int64) *float64 {
		took := step
		if known := series.Known.Sub(p.Time); known > 0 && known < step {
			took = known // of the newest point only a part is there
		}
		return number(float64(n) / took.Seconds())
	}
	handler := func(of func(h *client.HandlerTimes) float64) func(p *client.SeriesPoint) *float64 {
		return func(p *client.SeriesPoint) *float64 {
			if p.Handler == nil {
				return nil
			}
			return number(of(p.Handler))
		}
	}
	return []Chart{
		draw(series, "depth", "Messages", "", []measure{
			{"visible", func(p *client.SeriesPoint) *float64 { return number(p.Visible) }},
			{"delayed", func(p *client.SeriesPoint) *float64 { return number(p.Delayed) }},
			{"in flight", func(p *client.SeriesPoint) *float64 { return number(p.InFlight) }},
		}),
		draw(series, "rates", "Messages a second", "", []measure{
			{"in", func(p *client.SeriesPoint) *float64 { return rate(p, p.Sent+p.Arrived) }},
			{"out", func(p *client.SeriesPoint) *float64 { return rate(p, p.Left) }},
			// A delivery has failed when its message was to be tried again, or had no retry left.
			{"failed", func(p *client.SeriesPoint) *float64 { return rate(p, p.Retried+p.Dead+p.Dropped) }},
		}),
		draw(series, "handler", "Time of a handler call", "ms", []measure{
			{"p50", handler(func(h *client.HandlerTimes) float64 { return h.P50Milliseconds })},
			{"p95", handler(func(h *client.HandlerTimes) float64 { return h.P95Milliseconds })},
			{"p99", handler(func(h *client.HandlerTimes) float64 { return h.P99Milliseconds })},
		}),
		draw(series, "oldest", "Age of the oldest message", "s", []measure{
			{"oldest", func(p *client.SeriesPoint) *float64 { return number(p.OldestSeconds) }},
		}),
		draw(series, "running", "Handler calls at a time", "", []measure{
			{"running", func(p *client.SeriesPoint) *float64 { return number(p.Running) }},
			{"allowed", func(p *client.SeriesPoint) *float64 { return number(p.Allowed) }},
		}),
	}
}

// draw makes a chart of a series.
func draw(s *client.Series, id, title, unit string, measures []measure) Chart {
	c := Chart{ID: "chart-" + id, Title: title}
	times := make([]int64, len(s.Points))
	for i := range s.Points {
		times[i] = s.Points[i].Time.Unix()
	}
	lists := make([][]*float64, len(measures))
	words := make([]string, len(measures))
	for k, m := range measures {
		l := Line{Name: m.name, Last: "–", values: make([]*float64, len(s.Points))}
		most := 0.0
		for i := range s.Points {
			if l.values[i] = m.of(&s.Points[i]); l.values[i] != nil {
				most, l.Last = max(most, *l.values[i]), amount(*l.values[i], unit)
			}
		}
		lists[k], words[k] = l.values, fmt.Sprintf("%s: now %s, at most %s", m.name, l.Last, amount(most, unit))
		c.Lines = append(c.Lines, l)
	}
	c.Words = title + ". " + strings.Join(words, "; ") + "."
	data, err := json.Marshal(map[string]any{"times": times, "lines": lists, "unit": unit})
	if err != nil {
		data = []byte("null") // no number of a series is one that JSON lacks
	}
	c.Data = string(data)
	return c
}

// amount is a value of a chart, in words.
func amount(n float64, unit string) string {
	switch unit {
	case "ms":
		return view.Span(n)
	case "s":
		return view.Span(n * 1000)
	}
	if n >= 10 || n == float64(int64(n)) {
		return view.Count(int64(n + .5))
	}
	return view.Rate(n)
}
