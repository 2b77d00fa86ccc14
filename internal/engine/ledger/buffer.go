package ledger

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// buffer holds what is not written yet, in bounded memory. When it is full, the queues that hold most give way: a busy
// queue costs a quiet one nothing. The caller holds the ledger's lock.
type buffer struct {
	// most bounds the bytes.
	most int
	// queues are those that hold something, in the order in which they are served.
	queues []*pending
	byName map[string]*pending
	// bytes are those of all records here, taken those of what was taken and is not written yet.
	bytes, taken int
	records      int
	last         int64
}

// pending is what one queue holds.
type pending struct {
	queue   string
	records []*Record
	bytes   int
	// gap counts the records after the last one here that were not kept; nil when there is none.
	gap *Record
}

// number returns the next number. Numbers of two nodes in one millisecond differ by chance.
func (b *buffer) number(now time.Time) int64 {
	b.last = max(b.last+1, numberAt(now)|rand.Int64N(1<<numberBits)) //nolint:gosec // G404: two nodes need other numbers, not secret ones
	return b.last
}

func (b *buffer) of(queueName string) *pending {
	p := b.byName[queueName]
	if p == nil {
		p = &pending{queue: queueName}
		b.byName[queueName] = p
		b.queues = append(b.queues, p)
	}
	return p
}

// add takes a record in, or counts it in a gap. The second half of the buffer has no room for acks, so that a database that
// is away for long costs those first.
func (b *buffer) add(r *Record) {
	if 2*(b.bytes+b.taken+r.size()) > b.most {
		r.Acks = nil
	}
	p, size := b.of(r.ID.Queue), r.size()
	for b.bytes+b.taken+size > b.most {
		largest := p
		if (p.bytes+size)*len(b.queues) <= b.bytes+size {
			for _, other := range b.queues {
				if other.bytes > largest.bytes {
					largest = other
				}
			}
		}
		if largest == p {
			p.miss(r)
			return
		}
		n := len(largest.records) - 1
		newest := largest.records[n]
		largest.records = slices.Delete(largest.records, n, n+1)
		b.shrink(largest, newest.size())
		largest.miss(newest)
	}
	b.closeGap(p)
	b.put(p, r)
}

// expired counts messages in the queue's newest record, when that tells of expired ones too, else in a new one.
func (b *buffer) expired(queueName string, n int, now time.Time) {
	p := b.of(queueName)
	if last := len(p.records) - 1; last >= 0 && p.gap == nil && p.records[last].Outcome == Expired {
		r := p.records[last]
		r.Expired += n
		r.Duration = max(r.Duration, now.Sub(r.Start))
		return
	}
	r := &Record{ID: ID{Queue: queueName, Number: b.number(now)}, Outcome: Expired, Start: now, Expired: n}
	r.trim()
	b.add(r)
}

func (b *buffer) put(p *pending, r *Record) {
	size := r.size()
	p.records = append(p.records, r)
	p.bytes += size
	b.bytes += size
	b.records++
}

func (b *buffer) shrink(p *pending, size int) {
	p.bytes -= size
	b.bytes -= size
	b.records--
}

// closeGap makes the gap of a queue a record like any other, so that what follows stands behind it.
func (b *buffer) closeGap(p *pending) {
	if p.gap != nil {
		b.put(p, p.gap)
		p.gap = nil
	}
}

// miss counts a record that is not kept.
func (p *pending) miss(r *Record) {
	if p.gap == nil {
		p.gap = &Record{ID: ID{Queue: p.queue}, Outcome: Gap}
	}
	p.gap.add(r)
	// Behind everything that the queue holds, and before whatever comes next.
	p.gap.ID.Number = max(p.gap.ID.Number, r.ID.Number)
}

// take takes out up to rows records, and up to bytes, of one queue after the other, oldest first. They count until written
// or missed is called.
func (b *buffer) take(rows, bytes int) []*Record {
	var list []*Record
	sum := 0
	for len(b.queues) > 0 && len(list) < rows && sum < bytes {
		p := b.queues[0]
		b.queues = b.queues[1:]
		b.closeGap(p)
		n := 0
		for n < len(p.records) && len(list) < rows && sum < bytes {
			r := p.records[n]
			n++
			sum += r.size()
			b.shrink(p, r.size())
			list = append(list, r)
		}
		if n < len(p.records) {
			p.records = p.records[n:]
			b.queues = append(b.queues, p)
		} else {
			delete(b.byName, p.queue)
		}
	}
	b.taken += sum
	return list
}

// written forgets what was taken.
func (b *buffer) written(list []*Record) {
	for _, r := range list {
		b.taken -= r.size()
	}
}

// missed makes gaps of what was taken and cannot be written.
func (b *buffer) missed(list []*Record) {
	b.written(list)
	for _, r := range list {
		b.of(r.ID.Queue).miss(r)
	}
}

// left is the number of records that are neither written nor counted in a gap.
func (b *buffer) left() int {
	n := 0
	for _, p := range b.queues {
		for _, r := range p.records {
			n += max(1, r.Missed)
		}
		if p.gap != nil {
			n += p.gap.Missed
		}
	}
	return n
}

// enough reports whether a write is worth its while at once.
func (b *buffer) enough() bool { return b.records >= queue.RecordRows || b.bytes >= queue.RecordBytes }
