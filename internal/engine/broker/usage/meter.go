package usage

import (
	"slices"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/pace"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// Count is a number of operations by kind.
type Count struct {
	Written   int64
	Delivered int64
	Deleted   int64
}

// Total is their sum, which the cap is measured by.
func (c Count) Total() int64 { return c.Written + c.Delivered + c.Deleted }

func (c Count) plus(d Count) Count {
	return Count{Written: c.Written + d.Written, Delivered: c.Delivered + d.Delivered, Deleted: c.Deleted + d.Deleted}
}

// sources is the number of sources; each has the place of its number less one.
const sources = 3

// tally is what was counted on one day.
type tally struct {
	by [sources]Count
	// warned is the highest part of the cap, in percent, that was announced.
	warned int16
	// unsaved says that the store does not know all of Others.
	unsaved bool
}

func (t *tally) total() int64 {
	n := int64(0)
	for i := range t.by {
		n += t.by[i].Total()
	}
	return n
}

// Meter counts the operations of one database. Methods may be called from several goroutines; those that belong to one
// source only by who writes its entries. Days are those of the times that it is given, in UTC.
type Meter struct {
	// kick wakes the keeper.
	kick pace.Kick

	mu sync.Mutex
	// dailyCap is the most operations of a day that sends may use up; 0 is no cap.
	dailyCap int64
	days     map[int32]*tally
	numbers  [sources]int64
	// reserved are the operations of sends that were admitted and are not committed yet.
	reserved int64
	alerts   []Alert
	// full is the last day that was seen used up.
	full int32
	// stale says that the keeper has something to write, urgent that it may not wait.
	stale, urgent bool
}

// NewMeter returns a meter that has counted nothing. A cap of 0 is none.
func NewMeter(dailyCap int64) *Meter {
	return &Meter{kick: make(pace.Kick, 1), dailyCap: dailyCap, days: map[int32]*tally{}}
}

// dayOf is the day of a time, in days since 1970-01-01 UTC.
func dayOf(now time.Time) int32 {
	const day = 24 * 60 * 60
	seconds := now.Unix()
	if seconds < 0 {
		seconds -= day - 1
	}
	return int32(seconds / day)
}

// endOf is when a day ends.
func endOf(day int32) time.Time { return time.Unix((int64(day)+1)*24*60*60, 0).UTC() }

// day returns the tally of a day. mu is held.
func (m *Meter) day(day int32) *tally {
	t := m.days[day]
	if t == nil {
		t = &tally{}
		m.days[day] = t
	}
	return t
}

// Load takes over what the store has kept, before anything is counted.
func (m *Meter) Load(entries []store.Usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range entries {
		u := &entries[i]
		if u.Source < 1 || u.Source > sources {
			continue
		}
		t := m.day(u.Day)
		t.by[u.Source-1] = Count{Written: u.Written, Delivered: u.Delivered, Deleted: u.Deleted}
		t.warned = max(t.warned, u.Warned)
		m.numbers[u.Source-1] = max(m.numbers[u.Source-1], u.Number)
	}
	m.touch(true)
}

// SetCap changes the daily cap from now on; 0 is none.
func (m *Meter) SetCap(dailyCap int64, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dailyCap, m.full = dailyCap, 0
	m.watch(dayOf(now))
	// Whether SQL may send has to be looked at again.
	m.touch(true)
}

// Admit reserves the operations of one send. It refuses what would go beyond the cap, with a fault of kind Limit and the
// code queue.CodeOperationsCap. What is admitted is given back by Release, or counted by Sent.
func (m *Meter) Admit(operations int64, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dailyCap > 0 {
		day := dayOf(now)
		if t := m.day(day); t.total()+m.reserved+operations > m.dailyCap {
			m.announce(day, t, capReached)
			return capFault(m.dailyCap, day)
		}
	}
	m.reserved += operations
	return nil
}

// Release gives back what Admit reserved for a send that was not committed.
func (m *Meter) Release(operations int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reserved -= operations
}

// Sending returns the entry to be stored together with messages that take a number of operations to write. One goroutine
// at a time uses it, and reports what was stored to Sent before it asks for the next.
func (m *Meter) Sending(operations int64, now time.Time) store.Usage {
	return m.entry(store.Sends, Count{Written: operations}, now)
}

// Sent counts an entry of Sending as stored, and with it the reservations of the sends in it.
func (m *Meter) Sent(u *store.Usage, reserved int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reserved -= reserved
	m.stored(u)
}

// Settling returns the entry to be stored together with settlements, as Sending does for sends.
func (m *Meter) Settling(c Count, now time.Time) store.Usage {
	return m.entry(store.Settlements, c, now)
}

// Settled counts an entry of Settling as stored.
func (m *Meter) Settled(u *store.Usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stored(u)
}

// entry is what a source will have counted after c more.
func (m *Meter) entry(source store.Source, c Count, now time.Time) store.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	day := dayOf(now)
	sum := m.day(day).by[source-1].plus(c)
	m.numbers[source-1]++
	return store.Usage{
		Source: source, Day: day, Number: m.numbers[source-1],
		Written: sum.Written, Delivered: sum.Delivered, Deleted: sum.Deleted,
	}
}

// stored takes over an entry that is in the store. mu is held.
func (m *Meter) stored(u *store.Usage) {
	m.day(u.Day).by[u.Source-1] = Count{Written: u.Written, Delivered: u.Delivered, Deleted: u.Deleted}
	m.watch(u.Day)
	m.touch(false)
}

// Add counts operations that were not stored together with what they count.
func (m *Meter) Add(c Count, now time.Time) {
	if c == (Count{}) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	day := dayOf(now)
	t := m.day(day)
	t.by[store.Others-1] = t.by[store.Others-1].plus(c)
	t.unsaved = true
	m.watch(day)
	m.touch(false)
}

// touch tells the keeper, once until it comes, that there is something to write. mu is held.
func (m *Meter) touch(urgent bool) {
	if !m.stale || urgent && !m.urgent {
		m.kick.Poke()
	}
	m.stale, m.urgent = true, m.urgent || urgent
}

// watch announces the parts of the cap that a day has reached, and has SQL told at once when that is all of it: a send
// that was too large for the rest may have announced the end of the day's operations before. mu is held.
func (m *Meter) watch(day int32) {
	if m.dailyCap == 0 {
		return
	}
	t := m.day(day)
	total := t.total()
	if 100*total >= queue.OperationsWarning*m.dailyCap {
		m.announce(day, t, queue.OperationsWarning)
	}
	if total >= m.dailyCap {
		m.announce(day, t, capReached)
		if m.full != day {
			m.full = day
			m.touch(true)
		}
	}
}

// announce has a part of the cap told of, once a day, and those below it before. mu is held.
func (m *Meter) announce(day int32, t *tally, percent int16) {
	for _, part := range []int16{queue.OperationsWarning, capReached} {
		if part > percent || part <= t.warned {
			continue
		}
		t.warned, t.unsaved = part, true
		m.alerts = append(m.alerts, Alert{Percent: int(part), Used: t.total(), Cap: m.dailyCap, Day: endOf(day - 1), Resets: endOf(day)})
		m.touch(true)
	}
}

// Used is what was counted on the day of a time.
func (m *Meter) Used(now time.Time) Count {
	m.mu.Lock()
	defer m.mu.Unlock()
	var c Count
	for _, by := range m.day(dayOf(now)).by {
		c = c.plus(by)
	}
	return c
}

// Day is what was counted on one day.
type Day struct {
	// Begin is 00:00 UTC.
	Begin time.Time
	Count
}

// Days are the days that are kept, today's first, and the cap of a day; 0 is none.
func (m *Meter) Days(now time.Time) (days []Day, dailyCap int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.day(dayOf(now))
	for number, t := range m.days {
		d := Day{Begin: endOf(number - 1)}
		for _, by := range t.by {
			d.Count = d.plus(by)
		}
		days = append(days, d)
	}
	slices.SortFunc(days, func(a, b Day) int { return b.Begin.Compare(a.Begin) })
	return days, m.dailyCap
}

// task is what the keeper has to do.
type task struct {
	entries []store.Usage
	// keep is the first day whose counts are kept.
	keep   int32
	alerts []Alert
	// closed says until when SQL may not send; zero when it may.
	closed   time.Time
	dailyCap int64
}

// due takes what the keeper has to do; false when it is nothing. Who could not do it gives it back with again.
func (m *Meter) due(now time.Time) (task, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.stale {
		return task{}, false
	}
	today := dayOf(now)
	w := task{keep: today - queue.UsageDays, alerts: m.alerts, dailyCap: m.dailyCap}
	for day, t := range m.days {
		if day < w.keep {
			delete(m.days, day)
			continue
		}
		if !t.unsaved {
			continue
		}
		t.unsaved = false
		c := t.by[store.Others-1]
		m.numbers[store.Others-1]++
		w.entries = append(w.entries, store.Usage{
			Source: store.Others, Day: day, Number: m.numbers[store.Others-1],
			Written: c.Written, Delivered: c.Delivered, Deleted: c.Deleted, Warned: t.warned,
		})
	}
	slices.SortFunc(w.entries, func(a, b store.Usage) int { return int(a.Day - b.Day) })
	if m.dailyCap > 0 && m.day(today).total() >= m.dailyCap {
		w.closed = endOf(today)
	}
	m.alerts, m.stale, m.urgent = nil, false, false
	return w, true
}

// again gives back what could not be done.
func (m *Meter) again(w *task) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range w.entries {
		m.day(w.entries[i].Day).unsaved = true
	}
	m.alerts = append(w.alerts, m.alerts...)
	m.stale = true
}

// hurry reports whether what is due may not wait.
func (m *Meter) hurry() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.urgent
}

// capFault is what a send beyond the cap fails with.
func capFault(dailyCap int64, day int32) *fault.Error {
	return fault.New(fault.Limit, queue.CodeOperationsCap,
		"the queues of this database have used their %s operations of the day; sends are accepted again from %s",
		Grouped(dailyCap), endOf(day).Format("2006-01-02 15:04 UTC")).
		WithHint("look for a consumer that sends into its own queue, or have the operator raise --queue-ops-cap")
}
