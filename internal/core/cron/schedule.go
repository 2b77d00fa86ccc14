package cron

import (
	"math/bits"
	"time"
)

// Schedule is a parsed expression. It comes at least once: Parse refuses one that never does.
type Schedule struct {
	text    string
	minutes uint64
	hours   uint64
	months  uint64
	// dayStar and weekdayStar say that the field is *; it then leaves the choice of the day to the other.
	dayStar, weekdayStar bool
	day                  monthDay
	weekday              weekDay
	// words are what Describe needs of the fields as they were written.
	words [fields]field
}

// monthDay is the field of the day of the month. One kind is set: a list, the day before the last by offset, or a day.
type monthDay struct {
	list uint64
	// last counts from the end of the month, offset days before it.
	last   bool
	offset int
	// nearest moves the day (number, or that of last) to the nearest weekday of the month.
	nearest bool
	number  int
}

// weekDay is the field of the day of the week; days count from 1, Sunday.
type weekDay struct {
	list uint64
	// nth is which one of the month's days number is wanted: 1–5, or -1 for the last; 0 when list counts.
	nth    int
	number int
}

// cycleMonths is after how many months the calendar repeats: 400 years, which are a whole number of weeks.
const cycleMonths = 400 * 12

// String returns the expression as it was written, with single spaces.
func (s *Schedule) String() string { return s.text }

// Contains reports whether the schedule comes in the minute of t.
func (s *Schedule) Contains(t time.Time) bool {
	t = t.UTC()
	return has(s.minutes, t.Minute()) && has(s.hours, t.Hour()) && s.onDay(t.Date())
}

// Next returns the first time after t, which is not it: a whole minute in UTC.
func (s *Schedule) Next(t time.Time) time.Time {
	t = t.UTC().Truncate(time.Minute).Add(time.Minute)
	year, month, day := t.Date()
	if s.onDay(year, month, day) {
		if at, ok := s.from(t); ok {
			return at
		}
	}
	for range cycleMonths + 1 {
		if has(s.months, int(month)) {
			for day++; day <= daysIn(year, month); day++ {
				if s.onDay(year, month, day) {
					return time.Date(year, month, day, lowest(s.hours), lowest(s.minutes), 0, 0, time.UTC)
				}
			}
		}
		day = 0
		if month++; month > time.December {
			year, month = year+1, time.January
		}
	}
	return time.Time{}
}

// Prev returns the last time up to t, which may be the minute of t itself.
func (s *Schedule) Prev(t time.Time) time.Time {
	t = t.UTC().Truncate(time.Minute)
	year, month, day := t.Date()
	if s.onDay(year, month, day) {
		if at, ok := s.upTo(t); ok {
			return at
		}
	}
	for range cycleMonths + 1 {
		if has(s.months, int(month)) {
			for day--; day >= 1; day-- {
				if s.onDay(year, month, day) {
					return time.Date(year, month, day, highest(s.hours), highest(s.minutes), 0, 0, time.UTC)
				}
			}
		}
		if month--; month < time.January {
			year, month = year-1, time.December
		}
		day = daysIn(year, month) + 1
	}
	return time.Time{}
}

// Count returns how many times lie after from and before to, at most most.
func (s *Schedule) Count(from, to time.Time, most int) int {
	n := 0
	for at := s.Next(from); n < most && !at.IsZero() && at.Before(to); at = s.Next(at) {
		n++
	}
	return n
}

// from returns the first time of the day of t that is not before t.
func (s *Schedule) from(t time.Time) (time.Time, bool) {
	hour, minute := t.Hour(), t.Minute()
	if has(s.hours, hour) {
		if rest := s.minutes >> minute << minute; rest != 0 {
			return at(t, hour, lowest(rest)), true
		}
	}
	if rest := s.hours >> (hour + 1) << (hour + 1); rest != 0 {
		return at(t, lowest(rest), lowest(s.minutes)), true
	}
	return time.Time{}, false
}

// upTo returns the last time of the day of t that is not after t.
func (s *Schedule) upTo(t time.Time) (time.Time, bool) {
	hour, minute := t.Hour(), t.Minute()
	if has(s.hours, hour) {
		if rest := s.minutes & (1<<(minute+1) - 1); rest != 0 {
			return at(t, hour, highest(rest)), true
		}
	}
	if rest := s.hours & (1<<hour - 1); rest != 0 {
		return at(t, highest(rest), highest(s.minutes)), true
	}
	return time.Time{}, false
}

func at(day time.Time, hour, minute int) time.Time {
	return time.Date(day.Year(), day.Month(), day.Day(), hour, minute, 0, 0, time.UTC)
}

// onDay reports whether the schedule comes on a day.
func (s *Schedule) onDay(year int, month time.Month, day int) bool {
	if !has(s.months, int(month)) {
		return false
	}
	switch {
	case s.dayStar && s.weekdayStar:
		return true
	case s.dayStar:
		return s.weekday.contains(year, month, day)
	case s.weekdayStar:
		return s.day.contains(year, month, day)
	default:
		return s.day.contains(year, month, day) || s.weekday.contains(year, month, day)
	}
}

func (d *monthDay) contains(year int, month time.Month, day int) bool {
	if d.list != 0 {
		return has(d.list, day)
	}
	last := daysIn(year, month)
	target := d.number
	if d.last {
		target = last - d.offset
	}
	if target < 1 || target > last {
		return false // this month does not have the day
	}
	if d.nearest {
		target = nearestWeekday(year, month, target, last)
	}
	return day == target
}

// nearestWeekday moves a Saturday to the Friday before it and a Sunday to the Monday after it, but never out of the month.
func nearestWeekday(year int, month time.Month, day, last int) int {
	switch weekday := weekdayOf(year, month, day); {
	case weekday == time.Saturday && day == 1:
		return day + 2
	case weekday == time.Saturday:
		return day - 1
	case weekday == time.Sunday && day == last:
		return day - 2
	case weekday == time.Sunday:
		return day + 1
	default:
		return day
	}
}

func (d *weekDay) contains(year int, month time.Month, day int) bool {
	number := int(weekdayOf(year, month, day)) + 1
	switch d.nth {
	case 0:
		return has(d.list, number)
	case lastOne:
		return number == d.number && day+7 > daysIn(year, month)
	default:
		return number == d.number && (day-1)/7+1 == d.nth
	}
}

// lastOne is the nth of the last such day of a month.
const lastOne = -1

func weekdayOf(year int, month time.Month, day int) time.Weekday {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Weekday()
}

func daysIn(year int, month time.Month) int {
	return time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

func has(set uint64, value int) bool { return set>>value&1 == 1 }
func lowest(set uint64) int          { return bits.TrailingZeros64(set) }
func highest(set uint64) int         { return bits.Len64(set) - 1 }
