package cron

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// mostTimes bounds the times of a day that are listed one by one.
const mostTimes = 4

// Describe says in words when the schedule comes: "every 5 minutes", "at 09:00 UTC on weekdays".
func (s *Schedule) Describe() string {
	return s.describeTime() + s.describeDay() + s.describeMonth()
}

// describeTime says at which times of its days.
func (s *Schedule) describeTime() string {
	minutes, hours := &s.words[minuteField], &s.words[hourField]
	perDay := bits.OnesCount64(s.minutes) * bits.OnesCount64(s.hours)
	if perDay <= mostTimes {
		times := make([]string, 0, perDay)
		for _, hour := range values(s.hours) {
			for _, minute := range values(s.minutes) {
				times = append(times, fmt.Sprintf("%02d:%02d", hour, minute))
			}
		}
		return "at " + and(times) + " UTC"
	}
	var text string
	even := s.evenMinutes()
	switch {
	case even != "":
		text = even
	case s.minutes == 1 && hours.star:
		return "every hour"
	case s.minutes == 1 && hours.every() > 0 && 24%hours.every() == 0:
		return fmt.Sprintf("every %d hours", hours.every())
	case bits.OnesCount64(s.minutes) == 1:
		text = fmt.Sprintf("at minute %d", lowest(s.minutes))
	default:
		text = "at minutes " + minutes.list(strconv.Itoa)
	}
	switch {
	case hours.star:
		if even == "" {
			text += " of every hour"
		}
		return text
	case hours.every() > 0:
		return text + fmt.Sprintf(" of every %s hour", ordinal(hours.every()))
	default:
		word := " of the hours "
		if bits.OnesCount64(s.hours) == 1 {
			word = " of the hour "
		}
		return text + word + hours.list(strconv.Itoa) + " UTC"
	}
}

// evenMinutes says "every minute" or "every 5 minutes" where that is the whole truth about the minutes.
func (s *Schedule) evenMinutes() string {
	f := &s.words[minuteField]
	switch n := f.every(); {
	case f.star || n == 1:
		return "every minute"
	case n > 0 && 60%n == 0:
		return fmt.Sprintf("every %d minutes", n)
	}
	return ""
}

// every returns n of a field that is */n and nothing else; 0 of any other.
func (f *field) every() int {
	if len(f.items) == 1 && f.items[0].star {
		return f.items[0].step
	}
	return 0
}

// describeDay says on which days.
func (s *Schedule) describeDay() string {
	switch {
	case s.dayStar && s.weekdayStar:
		return ""
	case s.dayStar:
		return " on " + s.describeWeekday()
	case s.weekdayStar:
		return " on " + s.describeMonthDay()
	default:
		return " on " + s.describeMonthDay() + " and on " + s.describeWeekday()
	}
}

func (s *Schedule) describeMonthDay() string {
	d := &s.day
	switch {
	case d.list != 0:
		if n := s.words[dayField].every(); n > 1 {
			return fmt.Sprintf("every %s day of the month from the 1st", ordinal(n))
		}
		return "the " + s.words[dayField].list(ordinal)
	case d.last && d.nearest && d.offset == 0:
		return "the last weekday of the month"
	case d.last && d.offset == 0:
		return "the last day of the month"
	}
	day := "the " + ordinal(d.number)
	if d.last {
		day = fmt.Sprintf("the %s day before the month's last", ordinal(d.offset))
	}
	if d.nearest {
		return "the weekday nearest to " + day
	}
	return day
}

// The sets of the working days and of the weekend.
const (
	workingDays = 1<<2 | 1<<3 | 1<<4 | 1<<5 | 1<<6
	weekend     = 1<<1 | 1<<7
)

func weekdayName(number int) string { return time.Weekday(number - 1).String() }

func (s *Schedule) describeWeekday() string {
	d := &s.weekday
	switch {
	case d.nth == lastOne:
		return "the last " + weekdayName(d.number) + " of the month"
	case d.nth > 0:
		return "the " + ordinal(d.nth) + " " + weekdayName(d.number) + " of the month"
	case d.list == workingDays:
		return "weekdays"
	case d.list == weekend:
		return "Saturdays and Sundays"
	case bits.OnesCount64(d.list) == specs[weekdayField].top:
		return "every day"
	}
	var names []string
	for _, n := range values(d.list) {
		names = append(names, weekdayName(n)+"s")
	}
	return and(names)
}

// describeMonth says in which months.
func (s *Schedule) describeMonth() string {
	f := &s.words[monthField]
	if f.star || bits.OnesCount64(s.months) == specs[monthField].top {
		return ""
	}
	if n := f.every(); n > 0 {
		return fmt.Sprintf(" in every %s month from January", ordinal(n))
	}
	return " in " + f.list(func(n int) string { return time.Month(n).String() })
}

// list says the items of a field, with the words of one value.
func (f *field) list(word func(int) string) string {
	parts := make([]string, len(f.items))
	for i, it := range f.items {
		text := word(it.from)
		if it.to != it.from {
			text += "–" + word(it.to)
		}
		if it.step > 1 {
			text = fmt.Sprintf("every %s of %s", ordinal(it.step), text)
		}
		parts[i] = text
	}
	return and(parts)
}

func values(set uint64) []int {
	var list []int
	for ; set != 0; set &= set - 1 {
		list = append(list, lowest(set))
	}
	return list
}

func and(parts []string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}

func ordinal(n int) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}
