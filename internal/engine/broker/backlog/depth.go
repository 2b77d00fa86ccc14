package backlog

import "time"

// Depth is what a queue holds, as far as memory knows it.
type Depth struct {
	Queue string
	// Count is all unsettled messages, InFlight those under lease. Delayed are those known to be not visible yet; Whole says
	// that there are no others.
	Count, InFlight, Delayed int64
	Whole                    bool
	// Oldest is the send time of the oldest message that is visible or in flight, zero for none. That of a queue without a
	// lane is the one that was read last.
	Oldest time.Time
	// Bytes is the memory of the messages that are ready to be delivered.
	Bytes int64
}

// Depths returns what the queues hold now; nil until the counts are exact. It reads memory alone.
func (b *Book) Depths(now time.Time) []Depth {
	if !b.Exact() {
		return nil
	}
	queues := b.All()
	depths := make([]Depth, len(queues))
	for i, q := range queues {
		depths[i] = q.depth(now)
	}
	return depths
}

func (q *Queue) depth(now time.Time) Depth {
	q.mu.Lock()
	defer q.mu.Unlock()
	m := q.metrics(now)
	d := Depth{Queue: q.Name, Count: m.Count, InFlight: min(int64(q.leased), m.Count), Oldest: m.Oldest}
	waiting := d.Count - d.InFlight
	if q.win != nil {
		d.Delayed, d.Whole = q.win.Delayed(now)
		d.Delayed, d.Bytes = min(d.Delayed, waiting), int64(q.win.Bytes())
	}
	d.Whole = d.Whole || waiting == 0
	if d.Count == 0 {
		d.Oldest = time.Time{}
	}
	return d
}
