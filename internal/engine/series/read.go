package series

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Steps are the spans of a point that can be asked for.
var Steps = [...]time.Duration{
	queue.SeriesStep, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour,
}

// Query asks for the series of a queue.
type Query struct {
	Queue string
	// From and To bound the time, To exclusive. A zero To is now, a zero From is queue.SeriesMemory before To.
	From, To time.Time
	// Step is the span of a point; 0 takes the shortest that gives no more than queue.SeriesAutoPoints. What lies between two
	// of Steps becomes the longer.
	Step time.Duration
}

// Series are the points of a queue in a time, one behind the other without a gap: where nothing is known, nothing happened.
type Series struct {
	// Step is the span of each point. It is longer than what was asked for where that gives too many points, or where the
	// numbers are there by the minute only.
	Step   time.Duration
	Points []Point
	// Known is until when the numbers are there. The last point ends then, where its span is not over.
	Known time.Time
}

// Series returns the series of a queue. Faults: Invalid for a time that ends before it begins, Unavailable when the database
// is needed and does not answer.
func (r *Recorder) Series(ctx context.Context, q Query) (Series, error) {
	now := time.Now()
	if q.To.IsZero() || q.To.After(now) {
		q.To = now
	}
	if q.From.IsZero() {
		q.From = q.To.Add(-queue.SeriesMemory)
	}
	if floor := now.Add(-queue.SeriesAge); q.From.Before(floor) {
		q.From = floor
	}
	if !q.From.Before(q.To) {
		return Series{}, fault.New(fault.Invalid, "series_range", "a series ends after it begins, and not longer ago than it is kept").
			WithHint("numbers are kept for %d days; give from and to as times, like 2026-11-30T12:00:00Z", int(queue.SeriesAge/(24*time.Hour)))
	}
	step := chooseStep(q.Step, q.To.Sub(q.From))
	r.mu.Lock()
	began, started, writer, store := r.began, r.started, r.writer, r.store
	// What happened since the last sample is not known yet, which is not nothing.
	if end := r.last.Add(queue.SeriesStep); !r.last.IsZero() && end.After(q.From) && end.Before(q.To) {
		q.To = end
	}
	r.mu.Unlock()
	rows, err := read(ctx, store, q.Queue, q.From.Truncate(max(step, time.Minute)), q.To)
	if err != nil && q.From.Before(began) {
		return Series{}, err
	}
	// What this process counted in whole minutes from here on is in memory, and so is its first minute.
	border := began.Add(time.Minute - 1).Truncate(time.Minute)
	if began.Equal(started) {
		border = began.Truncate(time.Minute)
	}
	rows = slices.DeleteFunc(rows, func(row Row) bool { return row.Writer == writer && !row.Start.Before(border) })
	if len(rows) > 0 {
		step = max(step, time.Minute)
	}
	out := empty(q.From.Truncate(step), q.To, step)
	out.Known = q.To
	for i := range rows {
		out.add(&rows[i].Point)
	}
	from := border
	if step < time.Minute {
		from = began
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.lines[q.Queue]; l != nil {
		for i := range l.points {
			if p := &l.points[i]; !p.Start.Before(from) {
				out.add(p)
			}
		}
	}
	return out, nil
}

// read asks the store, if there is one.
func read(ctx context.Context, s Store, queueName string, from, to time.Time) ([]Row, error) {
	if s == nil {
		return nil, errNoStore
	}
	ctx, cancel := context.WithTimeout(ctx, queue.RecordTime)
	defer cancel()
	return s.Read(ctx, queueName, from, to)
}

// chooseStep is the step for a span of time: at least what was asked for, and no more points than there may be.
func chooseStep(asked, span time.Duration) time.Duration {
	most := queue.SeriesPoints
	if asked <= 0 {
		most = queue.SeriesAutoPoints
	}
	for _, step := range Steps {
		if step >= asked && span <= step*time.Duration(most-1) {
			return step
		}
	}
	return Steps[len(Steps)-1]
}

// empty are points in which nothing happened.
func empty(from, to time.Time, step time.Duration) Series {
	out := Series{Step: step}
	for at := from.UTC(); at.Before(to); at = at.Add(step) {
		out.Points = append(out.Points, Point{Start: at})
	}
	return out
}

// add puts a shorter point where it belongs.
func (s *Series) add(p *Point) {
	if len(s.Points) == 0 || p.Start.Before(s.Points[0].Start) {
		return
	}
	if i := int(p.Start.Sub(s.Points[0].Start) / s.Step); i < len(s.Points) {
		s.Points[i].merge(p)
	}
}

// Rates are how fast messages came and went of late.
type Rates struct {
	Queue string
	// In and Out are messages a second: In those that were sent or came from another queue, Out those that are gone. The last
	// of them is the newest.
	In, Out []float64
}

// Recent are the rates of the queues of a database.
type Recent struct {
	// From is when the first span begins, Step is its length. Known is from when on the numbers are there: what is before is 0.
	From, Known time.Time
	Step        time.Duration
	Queues      []Rates
}

// Recent returns the rates of the last queue.SeriesMemory in about as many points, from memory alone, by name of the queue.
func (r *Recorder) Recent(points int) Recent {
	points = max(1, min(points, int(queue.SeriesMemory/queue.SeriesStep)))
	step := queue.SeriesMemory / time.Duration(points)
	step = max(queue.SeriesStep, (step + queue.SeriesStep - 1).Truncate(queue.SeriesStep))
	n := int(queue.SeriesMemory / step)
	r.mu.Lock()
	defer r.mu.Unlock()
	end := r.last.Add(queue.SeriesStep)
	out := Recent{From: end.Add(-time.Duration(n) * step).UTC(), Known: r.began.UTC(), Step: step}
	for _, l := range r.lines {
		if l.name == "" {
			continue
		}
		rates := Rates{Queue: l.name, In: make([]float64, n), Out: make([]float64, n)}
		for i := range l.points {
			p := &l.points[i]
			if p.Start.Before(out.From) {
				continue
			}
			if at := int(p.Start.Sub(out.From) / step); at < n {
				rates.In[at] += float64(p.Sent+p.Arrived) / step.Seconds()
				rates.Out[at] += float64(p.Left) / step.Seconds()
			}
		}
		out.Queues = append(out.Queues, rates)
	}
	slices.SortFunc(out.Queues, func(a, b Rates) int { return strings.Compare(a.Queue, b.Queue) })
	return out
}

// Watched is a queue as it is now, for metrics.
type Watched struct {
	Queue string
	Counts
	Gauges
}

// Watched returns the counters of each queue, by name, with its gauges of the last point. The first has no name when there
// are more than queue.SeriesQueues queues: it stands for those beyond.
func (r *Recorder) Watched() []Watched {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]Watched, 0, len(r.lines))
	for _, l := range r.lines {
		list = append(list, Watched{Queue: l.name, Counts: l.Counts(), Gauges: l.gauges})
	}
	slices.SortFunc(list, func(a, b Watched) int { return strings.Compare(a.Queue, b.Queue) })
	return list
}
