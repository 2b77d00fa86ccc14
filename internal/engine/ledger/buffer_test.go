package ledger

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/runlot/runlot/internal/core/queue"
)

// TestBufferAccounts drives a small buffer at random: whatever comes in comes out as a record or in the count of a gap,
// in the order of its queue, and memory stays within its bound.
func TestBufferAccounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(2_000, 20_000).Draw(t, "most")
		b := buffer{most: most, byName: map[string]*pending{}}
		names := []string{"a", "b", "c", "d"}
		in, out, messages, delivered := 0, 0, 0, 0
		highest := map[string]int64{}
		var taken []*Record
		done := func(list []*Record) {
			for _, r := range list {
				out += max(1, r.Missed)
				delivered += r.Delivered
				if r.Outcome != Gap && r.ID.Number <= highest[r.ID.Queue] {
					t.Fatalf("%s comes after number %x", r.ID, highest[r.ID.Queue])
				}
				highest[r.ID.Queue] = max(highest[r.ID.Queue], r.ID.Number)
			}
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0: // write
				if taken == nil {
					taken = b.take(rapid.IntRange(1, 20).Draw(t, "rows"), rapid.IntRange(1, 10_000).Draw(t, "bytes"))
				}
			case 1:
				b.written(taken)
				done(taken)
				taken = nil
			case 2:
				// What is missed comes out again, in a gap.
				b.missed(taken)
				taken = nil
			default:
				name := rapid.SampledFrom(names).Draw(t, "queue")
				n := rapid.IntRange(1, 100).Draw(t, "messages")
				r := &Record{
					ID: ID{Queue: name, Number: b.number(time.UnixMilli(1_000))}, Outcome: queue.OK, Delivered: n,
					Reason: string(make([]byte, rapid.IntRange(0, 2_000).Draw(t, "size"))), Acks: make([]queue.Acked, n),
				}
				in++
				messages += n
				b.add(r)
			}
			sum, records := 0, 0
			for _, p := range b.queues {
				own := 0
				for _, r := range p.records {
					own += r.size()
				}
				if own != p.bytes || b.byName[p.queue] != p {
					t.Fatalf("%s has %d bytes and counts %d", p.queue, own, p.bytes)
				}
				sum, records = sum+own, records+len(p.records)
			}
			held := 0
			for _, r := range taken {
				held += r.size()
			}
			// Gaps are the only records that come in without being asked about.
			if sum != b.bytes || records != b.records || held != b.taken || sum+held > most+len(names)*2*recordOverhead {
				t.Fatalf("%d bytes in %d records and %d taken; counted %d, %d and %d of %d", sum, records, held, b.bytes, b.records, b.taken, most)
			}
		}
		b.written(taken)
		done(taken)
		left := b.left()
		rest := b.take(1<<30, 1<<30)
		before := out
		done(rest)
		if out-before != left {
			t.Fatalf("%d are left and %d come out", left, out-before)
		}
		if out != in || delivered != messages {
			t.Fatalf("%d records of %d messages went in, %d of %d come out", in, messages, out, delivered)
		}
		if len(b.queues)+len(b.byName)+b.records+b.bytes != 0 {
			t.Fatalf("something is left: %+v", b)
		}
	})
}

// TestBusyQueueGivesWay: when the buffer is full of one queue, another still finds room.
func TestBusyQueueGivesWay(t *testing.T) {
	b := buffer{most: 20 * recordOverhead, byName: map[string]*pending{}}
	record := func(name string) *Record {
		return &Record{ID: ID{Queue: name, Number: b.number(time.UnixMilli(1))}, Outcome: queue.OK, Delivered: 1}
	}
	for range 50 {
		b.add(record("busy"))
	}
	for range 5 {
		b.add(record("quiet"))
	}
	b.add(record("busy"))
	quiet, busy := b.byName["quiet"], b.byName["busy"]
	if len(quiet.records) != 5 || quiet.gap != nil {
		t.Errorf("the quiet queue has %d records and the gap %+v", len(quiet.records), quiet.gap)
	}
	if busy.gap == nil || busy.gap.Missed+len(busy.records) != 51 || len(busy.records) < 10 {
		t.Errorf("the busy queue has %d records and the gap %+v", len(busy.records), busy.gap)
	}
}

// TestGapStandsBehindWhatCameBefore: a gap ends when the next record is kept, and a later one is another.
func TestGapStandsBehindWhatCameBefore(t *testing.T) {
	b := buffer{most: 10 * recordOverhead, byName: map[string]*pending{}}
	want := make([]int64, 0, 12)
	for range 2 {
		for range 5 {
			r := &Record{ID: ID{Queue: "jobs", Number: b.number(time.UnixMilli(1))}, Outcome: queue.OK}
			b.add(r)
			want = append(want, r.ID.Number)
		}
		before := b.most
		b.most = 0
		for range 3 {
			b.add(&Record{ID: ID{Queue: "jobs", Number: b.number(time.UnixMilli(1))}, Outcome: queue.OK})
		}
		want = append(want, b.last)
		b.most = 2 * before
	}
	got := make([]int64, 0, 12)
	for i, r := range b.take(100, 1<<20) {
		got = append(got, r.ID.Number)
		if gap := i%6 == 5; gap != (r.Outcome == Gap) || gap && r.Missed != 3 {
			t.Errorf("record %d is %+v", i, r)
		}
	}
	if !slices.Equal(want, got) {
		t.Errorf("numbers %v, want %v", got, want)
	}
}

// TestLinesAccount: lines that nobody takes do not pile up.
func TestLinesAccount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(500, 20_000).Draw(t, "most")
		l := newLines(most)
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			delivery := rapid.StringMatching("[a-f]{1,2}").Draw(t, "delivery")
			if rapid.IntRange(0, 5).Draw(t, "step") > 0 {
				l.add(delivery, Line{Text: string(make([]byte, rapid.IntRange(0, 300).Draw(t, "size")))})
			} else if lines := l.take(delivery); lines != nil && l.take(delivery) != nil {
				t.Fatal("lines come out twice")
			}
			sum := 0
			for e := l.order.Front(); e != nil; e = e.Next() {
				d := e.Value.(*logged)
				sum += lineOverhead + len(d.delivery)
				for _, line := range d.lines {
					sum += lineOverhead + len(line.Text)
				}
			}
			if sum != l.bytes || sum > most || l.order.Len() != len(l.byDelivery) {
				t.Fatalf("%d bytes in %d deliveries, counted %d in %d, the most is %d", sum, l.order.Len(), l.bytes, len(l.byDelivery), most)
			}
		}
	})
}

// TestAcksGiveWayFirst fills a buffer: the second half of it holds records that do not name what was acked.
func TestAcksGiveWayFirst(t *testing.T) {
	b := buffer{most: 20_000, byName: map[string]*pending{}}
	named, unnamed := 0, 0
	for b.bytes < 19_000 {
		r := &Record{ID: ID{Queue: "a", Number: b.number(time.UnixMilli(1_000))}, Outcome: queue.OK, Acks: make([]queue.Acked, 20)}
		b.add(r)
		switch {
		case r.Acks == nil:
			unnamed++
		case unnamed > 0 || 2*b.bytes > b.most:
			t.Fatalf("a record names its messages with %d of %d bytes in use", b.bytes, b.most)
		default:
			named++
		}
	}
	if named < 5 || unnamed < 10 || b.left() != named+unnamed {
		t.Errorf("%d records with names, %d without, %d kept", named, unnamed, b.left())
	}
}
