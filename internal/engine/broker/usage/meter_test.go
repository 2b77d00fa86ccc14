package usage

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func wantCap(t *testing.T, err error) {
	t.Helper()
	if f, ok := errors.AsType[*fault.Error](err); !ok || f.Kind != fault.Limit || f.Code != queue.CodeOperationsCap {
		t.Errorf("error %v, want %s", err, queue.CodeOperationsCap)
	}
}

// send admits and stores one send.
func send(t *testing.T, m *Meter, operations int64, now time.Time) {
	t.Helper()
	if err := m.Admit(operations, now); err != nil {
		t.Fatal(err)
	}
	u := m.Sending(operations, now)
	m.Sent(&u, operations)
}

func TestDayOf(t *testing.T) {
	for text, want := range map[string]int32{
		"1970-01-01T00:00:00Z": 0, "1970-01-01T23:59:59Z": 0, "1970-01-02T00:00:00Z": 1, "1969-12-31T23:59:59Z": -1,
		"2026-11-30T23:59:59.999Z": 20787, "2026-12-01T00:00:00Z": 20788, "2026-12-01T00:30:00+01:00": 20787,
	} {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		if got := dayOf(at); got != want {
			t.Errorf("%s is day %d, want %d", text, got, want)
		}
	}
	if end := endOf(dayOf(noon)); !end.Equal(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("the day ends at %s", end)
	}
}

func TestCapAdmitsUpToItself(t *testing.T) {
	m := NewMeter(10)
	send(t, m, 8, noon)
	wantCap(t, m.Admit(3, noon))
	if err := m.Admit(2, noon); err != nil {
		t.Errorf("a send that just fits: %v", err)
	}
	// What is admitted counts before it is committed, and no longer when it was not.
	wantCap(t, m.Admit(1, noon))
	m.Release(2)
	send(t, m, 2, noon)
	wantCap(t, m.Admit(1, noon))
	if got, want := m.Used(noon), (Count{Written: 10}); got != want {
		t.Errorf("used %+v, want %+v", got, want)
	}
}

func TestDeliveriesAndDeletionsUseUpTheCapAndGoOn(t *testing.T) {
	m := NewMeter(3)
	send(t, m, 1, noon)
	m.Add(Count{Delivered: 1}, noon)
	u := m.Settling(Count{Deleted: 1}, noon)
	m.Settled(&u)
	wantCap(t, m.Admit(1, noon))
	m.Add(Count{Delivered: 5}, noon)
	u = m.Settling(Count{Written: 1, Deleted: 1}, noon)
	m.Settled(&u)
	if got, want := m.Used(noon), (Count{Written: 2, Delivered: 6, Deleted: 2}); got != want {
		t.Errorf("used %+v, want %+v", got, want)
	}
}

func TestCapOfTheDay(t *testing.T) {
	m := NewMeter(5)
	send(t, m, 5, noon)
	midnight := endOf(dayOf(noon))
	wantCap(t, m.Admit(1, midnight.Add(-time.Nanosecond)))
	send(t, m, 5, midnight)
	wantCap(t, m.Admit(1, midnight))
	// A clock that is set back comes back to a day that is used up.
	wantCap(t, m.Admit(1, noon))
	m.SetCap(6, noon)
	send(t, m, 1, noon)
	m.SetCap(0, noon)
	send(t, m, 1_000_000, noon)
}

func TestCapText(t *testing.T) {
	m := NewMeter(1_000_000)
	err := m.Admit(1_000_001, noon)
	wantCap(t, err)
	for _, part := range []string{"1,000,000 operations", "2026-12-01 00:00 UTC", "--queue-ops-cap"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func percents(w task) []int {
	list := make([]int, len(w.alerts))
	for i, a := range w.alerts {
		list[i] = a.Percent
	}
	return list
}

func take(m *Meter, now time.Time) task {
	w, _ := m.due(now)
	return w
}

func TestAlertsOnceADay(t *testing.T) {
	m := NewMeter(100)
	send(t, m, 89, noon)
	if got := percents(take(m, noon)); len(got) > 0 {
		t.Errorf("alerts %v at 89 of 100", got)
	}
	m.Add(Count{Delivered: 1}, noon)
	w := take(m, noon)
	want := []Alert{{Percent: 90, Used: 90, Cap: 100, Day: noon.Truncate(24 * time.Hour), Resets: noon.Truncate(24 * time.Hour).Add(24 * time.Hour)}}
	if diff := cmp.Diff(want, w.alerts); diff != "" {
		t.Errorf("alerts (-want +got):\n%s", diff)
	}
	if !w.closed.IsZero() {
		t.Error("SQL may not send at 90 %")
	}
	send(t, m, 5, noon)
	if got := percents(take(m, noon)); len(got) > 0 {
		t.Errorf("alerts %v after that of 90 %%", got)
	}
	// A send that does not fit is told of, although less is used.
	wantCap(t, m.Admit(6, noon))
	if got := percents(take(m, noon)); !slices.Equal(got, []int{100}) {
		t.Errorf("alerts %v at the cap", got)
	}
	wantCap(t, m.Admit(6, noon))
	send(t, m, 5, noon)
	w = take(m, noon)
	if got := percents(w); len(got) > 0 {
		t.Errorf("alerts %v after that of the cap", got)
	}
	if !w.closed.Equal(endOf(dayOf(noon))) {
		t.Errorf("SQL may not send until %s", w.closed)
	}
	tomorrow := noon.Add(24 * time.Hour)
	send(t, m, 100, tomorrow)
	if got := percents(take(m, tomorrow)); !slices.Equal(got, []int{90, 100}) {
		t.Errorf("alerts %v on the next day", got)
	}
}

func TestAlertsOnceAcrossRestarts(t *testing.T) {
	m := NewMeter(10)
	send(t, m, 9, noon)
	w := take(m, noon)
	if got := percents(w); !slices.Equal(got, []int{90}) {
		t.Fatalf("alerts %v", got)
	}
	sent := store.Usage{Source: store.Sends, Day: dayOf(noon), Number: 1, Written: 9}
	next := NewMeter(10)
	next.Load(append(w.entries, sent))
	next.Add(Count{Delivered: 1}, noon)
	if got := percents(take(next, noon)); !slices.Equal(got, []int{100}) {
		t.Errorf("alerts %v after a restart, want that of the cap alone", got)
	}
}

func TestWhatCouldNotBeWrittenIsDueAgain(t *testing.T) {
	m := NewMeter(2)
	m.Add(Count{Delivered: 2}, noon)
	first, ok := m.due(noon)
	if !ok || len(first.entries) != 1 || len(first.alerts) != 2 {
		t.Fatalf("due: %+v", first)
	}
	if _, ok := m.due(noon); ok {
		t.Error("something is due although nothing happened")
	}
	m.again(&first)
	m.Add(Count{Delivered: 1}, noon.Add(24*time.Hour))
	second, _ := m.due(noon)
	if len(second.entries) != 2 || second.entries[0].Day != dayOf(noon) || second.entries[0].Delivered != 2 ||
		second.entries[0].Number <= first.entries[0].Number || len(second.alerts) != 2 {
		t.Errorf("due again: %+v", second)
	}
}

func TestOldDaysAreForgotten(t *testing.T) {
	m := NewMeter(0)
	for i := range 100 {
		now := noon.Add(time.Duration(i) * 24 * time.Hour)
		m.Add(Count{Delivered: 1}, now)
		if w := take(m, now); w.keep != dayOf(now)-queue.UsageDays {
			t.Fatalf("kept from day %d on, on day %d", w.keep, dayOf(now))
		}
		if len(m.days) > queue.UsageDays+1 {
			t.Fatalf("%d days in memory", len(m.days))
		}
	}
}

// TestCountIsThatOfAModel: whatever is sent, delivered, settled, refused, given up and restarted, in whatever order, the
// count is the sum of what happened, sends alone never take it over the cap, and what a restart finds differs by what was
// not written at most.
func TestCountIsThatOfAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(0, 50).Draw(t, "cap")
		m := NewMeter(limit)
		now := noon
		used := map[int32]int64{}      // by day
		unwritten := map[int32]int64{} // of it, not in kept
		kept := map[string]store.Usage{}
		warned := map[string]bool{}
		keep := func(u store.Usage) {
			key := fmt.Sprint(u.Source, u.Day)
			if kept[key].Number >= u.Number {
				t.Fatalf("entry %+v follows %+v", u, kept[key])
			}
			kept[key] = u
		}
		save := func(t *rapid.T) {
			w := take(m, now)
			for _, u := range w.entries {
				keep(u)
			}
			clear(unwritten)
			for _, a := range w.alerts {
				key := fmt.Sprint(a.Day, a.Percent)
				if warned[key] {
					t.Fatalf("a second alert of %d %% on %s", a.Percent, a.Day)
				}
				warned[key] = true
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				n := rapid.Int64Range(1, 9).Draw(t, "operations")
				err := m.Admit(n, now)
				if fits := limit == 0 || used[dayOf(now)]+n <= limit; fits != (err == nil) {
					t.Fatalf("%d of %d are used, a send of %d: %v", used[dayOf(now)], limit, n, err)
				}
				if err != nil {
					return
				}
				if rapid.Bool().Draw(t, "given up") {
					m.Sending(n, now)
					m.Release(n)
					return
				}
				u := m.Sending(n, now)
				keep(u)
				m.Sent(&u, n)
				used[dayOf(now)] += n
			},
			"settle": func(t *rapid.T) {
				c := Count{Written: rapid.Int64Range(0, 3).Draw(t, "moved"), Deleted: rapid.Int64Range(0, 3).Draw(t, "deleted")}
				u := m.Settling(c, now)
				keep(u)
				m.Settled(&u)
				used[dayOf(now)] += c.Total()
			},
			"deliver": func(t *rapid.T) {
				n := rapid.Int64Range(0, 3).Draw(t, "delivered")
				m.Add(Count{Delivered: n}, now)
				used[dayOf(now)] += n
				unwritten[dayOf(now)] += n
			},
			"save": save,
			"time": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.Int64Range(-20, 30).Draw(t, "hours")) * time.Hour)
			},
			"restart": func(t *rapid.T) {
				if rapid.Bool().Draw(t, "orderly") {
					save(t)
				}
				m = NewMeter(limit)
				list := make([]store.Usage, 0, len(kept))
				for _, u := range kept {
					list = append(list, u)
				}
				m.Load(list)
				for day, n := range unwritten {
					used[day] -= n
				}
				clear(unwritten)
				// What was announced and not recorded may come once more.
				for key := range warned {
					delete(warned, key)
				}
				for _, u := range list {
					for _, p := range []int16{90, 100} {
						if u.Warned >= p {
							warned[fmt.Sprint(endOf(u.Day-1), p)] = true
						}
					}
				}
			},
			"": func(t *rapid.T) {
				if got := m.Used(now).Total(); got != used[dayOf(now)] {
					t.Fatalf("%d operations are counted, %d happened", got, used[dayOf(now)])
				}
			},
		})
	})
}
