package cron_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// reference is an expression that was drawn together with what it means.
type reference struct {
	text                                   string
	minutes, hours, days, months, weekdays []int
	dayStar, weekdayStar                   bool
	onDay, onWeekday                       func(t time.Time) bool
}

func (r *reference) contains(t time.Time) bool {
	if !slices.Contains(r.minutes, t.Minute()) || !slices.Contains(r.hours, t.Hour()) || !slices.Contains(r.months, int(t.Month())) {
		return false
	}
	switch {
	case r.dayStar && r.weekdayStar:
		return true
	case r.dayStar:
		return r.onWeekday(t)
	case r.weekdayStar:
		return r.onDay(t)
	}
	return r.onDay(t) || r.onWeekday(t)
}

func drawReference(t *rapid.T) *reference {
	r := &reference{}
	var parts [5]string
	var star bool
	parts[0], r.minutes, _ = drawList(t, "minute", 0, 59, nil)
	parts[1], r.hours, _ = drawList(t, "hour", 0, 23, nil)
	parts[2], r.days, star = drawList(t, "day", 1, 31, nil)
	r.dayStar = star
	r.onDay = func(at time.Time) bool { return slices.Contains(r.days, at.Day()) }
	parts[3], r.months, _ = drawList(t, "month", 1, 12, strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec"))
	parts[4], r.weekdays, star = drawList(t, "weekday", 1, 7, strings.Fields("Sun Mon Tue Wed Thu Fri Sat"))
	r.weekdayStar = star
	r.onWeekday = func(at time.Time) bool { return slices.Contains(r.weekdays, int(at.Weekday())+1) }
	if rapid.IntRange(0, 2).Draw(t, "special day") == 0 {
		parts[2], r.onDay = drawDay(t)
		r.dayStar = false
	}
	if rapid.IntRange(0, 2).Draw(t, "special weekday") == 0 {
		parts[4], r.onWeekday = drawWeekday(t)
		r.weekdayStar = false
	}
	r.text = strings.Join(parts[:], " ")
	return r
}

// drawList draws a field and its values.
func drawList(t *rapid.T, name string, low, top int, names []string) (text string, values []int, star bool) {
	if rapid.Bool().Draw(t, name+" star") {
		for v := low; v <= top; v++ {
			values = append(values, v)
		}
		return "*", values, true
	}
	one := func() (string, int) {
		v := rapid.IntRange(low, top).Draw(t, name)
		if names != nil && rapid.Bool().Draw(t, "name") {
			return names[v-low], v
		}
		return fmt.Sprint(v), v
	}
	var parts []string
	for range rapid.IntRange(1, 3).Draw(t, name+"s") {
		a, from := one()
		step := rapid.IntRange(1, top-low).Draw(t, "step")
		switch rapid.IntRange(0, 4).Draw(t, "form") {
		case 0:
			parts = append(parts, a)
			values = append(values, from)
		case 1, 2:
			b, to := one()
			text := a + "-" + b
			stepped := rapid.Bool().Draw(t, "stepped")
			if stepped {
				text += fmt.Sprintf("/%d", step)
			}
			parts = append(parts, text)
			for n, v := 0, from; ; n, v = n+1, v+1 {
				if v > top {
					v = low
				}
				if !stepped || n%step == 0 {
					values = append(values, v)
				}
				if v == to {
					break
				}
			}
		case 3:
			parts = append(parts, fmt.Sprintf("*/%d", step))
			for v := low; v <= top; v += step {
				values = append(values, v)
			}
		case 4:
			parts = append(parts, fmt.Sprintf("%s/%d", a, step))
			for v := from; v <= top; v += step {
				values = append(values, v)
			}
		}
	}
	return strings.Join(parts, ","), values, false
}

// drawDay draws a form of L or W. Its meaning looks at the days around instead of counting.
func drawDay(t *rapid.T) (string, func(time.Time) bool) {
	n := rapid.IntRange(1, 30).Draw(t, "n")
	fromEnd := func(at time.Time) int { return at.AddDate(0, 0, -at.Day()+1).AddDate(0, 1, -1).Day() - at.Day() }
	nearest := func(is func(time.Time) bool) func(time.Time) bool {
		return func(at time.Time) bool {
			if at.Weekday() == time.Saturday || at.Weekday() == time.Sunday {
				return false
			}
			// A working day is meant when the day itself is, or a day of the weekend beside it that is nearer to it.
			for _, away := range []int{0, 1, -1, 2, -2} {
				other := at.AddDate(0, 0, away)
				if other.Month() != at.Month() || !is(other) {
					continue
				}
				switch other.Weekday() {
				case time.Saturday:
					return away == 1 || away == -2 && other.Day() == 1
				case time.Sunday:
					return away == -1 || away == 2 && fromEnd(other) == 0
				default:
					return away == 0
				}
			}
			return false
		}
	}
	last := func(at time.Time) bool { return fromEnd(at) == 0 }
	before := func(at time.Time) bool { return fromEnd(at) == n }
	number := func(at time.Time) bool { return at.Day() == n }
	switch rapid.IntRange(0, 4).Draw(t, "form of day") {
	case 0:
		return "L", last
	case 1:
		return "LW", nearest(last)
	case 2:
		return fmt.Sprintf("L-%d", n), before
	case 3:
		return fmt.Sprintf("L-%dW", n), nearest(before)
	default:
		return fmt.Sprintf("%dW", n), nearest(number)
	}
}

func drawWeekday(t *rapid.T) (string, func(time.Time) bool) {
	day := rapid.IntRange(1, 7).Draw(t, "day of the week")
	is := func(at time.Time) bool { return int(at.Weekday())+1 == day }
	switch nth := rapid.IntRange(-1, 5).Draw(t, "nth"); nth {
	case -1:
		return "L", func(at time.Time) bool { return at.Weekday() == time.Saturday }
	case 0:
		return fmt.Sprintf("%dL", day), func(at time.Time) bool { return is(at) && at.AddDate(0, 0, 7).Month() != at.Month() }
	default:
		return fmt.Sprintf("%d#%d", day, nth), func(at time.Time) bool {
			return is(at) && at.AddDate(0, 0, -7*(nth-1)).Month() == at.Month() && at.AddDate(0, 0, -7*nth).Month() != at.Month()
		}
	}
}
