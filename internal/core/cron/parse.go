package cron

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// CodeInvalid is the code of the faults of Parse.
const CodeInvalid = "cron_invalid"

// fields is the number of fields of an expression.
const fields = 5

// spec is what a field may hold.
type spec struct {
	name     string
	low, top int
	// names stand for the numbers from low on.
	names []string
	// example is a value of the field that may stand alone.
	example string
}

// The fields in their order.
const (
	minuteField = iota
	hourField
	dayField
	monthField
	weekdayField
)

var specs = [fields]spec{
	{name: "minute", low: 0, top: 59, example: "0"},
	{name: "hour", low: 0, top: 23, example: "9"},
	{name: "day of the month", low: 1, top: 31, example: "1"},
	{
		name: "month", low: 1, top: 12, example: "JAN",
		names: []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"},
	},
	{name: "day of the week", low: 1, top: 7, example: "MON", names: []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}},
}

// field is a field as it was written.
type field struct {
	star  bool
	items []item
}

// item is one element of a list: a value (from == to, step 0), a range (step 0 or more). star says that it was written */n,
// open that it was written a/n.
type item struct {
	from, to, step int
	star, open     bool
}

// short are the words that other programs take for an expression.
var short = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * SUN", "@daily": "0 0 * * *",
	"@midnight": "0 0 * * *", "@hourly": "0 * * * *", "@reboot": "",
}

// refusal is a fault of kind Invalid without its hint.
func refusal(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, CodeInvalid, format, args...)
}

// Parse reads an expression. Every error is a fault of kind Invalid that names the field, the rule and the way out.
func Parse(text string) (*Schedule, error) {
	if len(text) > queue.MaxCronText {
		return nil, refusal("the expression has %d characters; the most are %d", len(text), queue.MaxCronText).WithHint("shorten its lists to ranges or steps")
	}
	parts := strings.Fields(text)
	if err := countParts(parts); err != nil {
		return nil, err
	}
	s := &Schedule{text: strings.Join(parts, " ")}
	for i, part := range parts {
		if err := s.parseField(i, part); err != nil {
			return nil, err
		}
	}
	if s.Next(time.Time{}).IsZero() {
		return nil, refusal("day of the month %s in month %s never comes: no such month has that day", parts[dayField], parts[monthField]).
			WithHint("L in the field of the day is the last day of any month")
	}
	return s, nil
}

func countParts(parts []string) error {
	if len(parts) == fields {
		return nil
	}
	const form = "the five fields are minute, hour, day of the month, month and day of the week, like 0 9 * * MON-FRI"
	switch {
	case len(parts) == 0:
		return refusal("the expression is empty").WithHint(form)
	case strings.HasPrefix(parts[0], "@"):
		if long := short[strings.ToLower(parts[0])]; long != "" && len(parts) == 1 {
			return refusal("%s is not known here", strconv.Quote(parts[0])).WithHint("write it out: %s", long)
		}
		return refusal("%s is not known here", strconv.Quote(parts[0])).WithHint(form)
	case len(parts) == fields+1:
		return refusal("the expression has six fields, not five").WithHint("a minute is the smallest step: leave out the seconds, or the year. %s", form)
	default:
		return refusal("the expression has %d fields, not five", len(parts)).WithHint(form)
	}
}

// parseField reads one field.
func (s *Schedule) parseField(number int, text string) error {
	f := &specs[number]
	if text == "*" {
		s.words[number] = field{star: true}
	}
	switch number {
	case dayField:
		if s.dayStar = text == "*"; s.dayStar {
			return nil
		}
		if strings.ContainsAny(text, "LWlw") {
			return s.specialDay(f, text)
		}
	case weekdayField:
		if s.weekdayStar = text == "*"; s.weekdayStar {
			return nil
		}
		if strings.Contains(text, "#") || strings.HasSuffix(strings.ToUpper(text), "L") {
			return s.specialWeekday(f, text)
		}
	}
	set, items, err := f.list(text)
	if err != nil {
		return err
	}
	if text != "*" {
		s.words[number] = field{items: items}
	}
	switch number {
	case minuteField:
		s.minutes = set
	case hourField:
		s.hours = set
	case dayField:
		s.day.list = set
	case monthField:
		s.months = set
	case weekdayField:
		s.weekday.list = set
	}
	return nil
}

// list reads a list of values, ranges and steps into a set.
func (f *spec) list(text string) (uint64, []item, error) {
	if text == "*" {
		return f.set(item{from: f.low, to: f.top, step: 1}), nil, nil
	}
	var set uint64
	var items []item
	for part := range strings.SplitSeq(text, ",") {
		it, err := f.item(part, text)
		if err != nil {
			return 0, nil, err
		}
		items = append(items, it)
		set |= f.set(it)
	}
	return set, items, nil
}

// set holds the values of an item; a range whose end is below its start goes on at the beginning of the field.
func (f *spec) set(it item) uint64 {
	to, size := it.to, f.top-f.low+1
	if to < it.from {
		to += size
	}
	var set uint64
	for v := it.from; v <= to; v += max(1, it.step) {
		set |= 1 << (f.low + (v-f.low)%size)
	}
	return set
}

// item reads a part of a list; whole is the field that it stands in.
func (f *spec) item(text, whole string) (item, error) {
	base, stepText, stepped := strings.Cut(text, "/")
	it := item{star: base == "*", open: stepped}
	from, to, ranged := strings.Cut(base, "-")
	var err error
	switch {
	case text == "":
		return it, f.refuse(whole, "has an empty place in its list").WithHint("leave out the comma, or write a value there, like %s", f.example)
	case base == "*" && !stepped:
		return it, f.refuse(whole, "has * in a list, which is every value anyway").WithHint("write * alone, or a step like */5")
	case base == "*":
		it.from, it.to = f.low, f.top
	case ranged:
		it.open = false
		if it.from, err = f.value(from, whole); err == nil {
			it.to, err = f.value(to, whole)
		}
	default:
		it.from, err = f.value(from, whole)
		if it.to = it.from; stepped {
			it.to = f.top
		}
	}
	if err != nil || !stepped {
		return it, err
	}
	most := f.top - f.low
	if it.step, err = strconv.Atoi(stepText); err != nil || !digits(stepText) || it.step < 1 || it.step > most {
		return it, f.refuse(whole, "has a step of %s, which is not a number from 1 to %d", strconv.Quote(stepText), most).
			WithHint("a step is written */2, or 10-30/5 for a part of the field")
	}
	return it, nil
}

// value reads a number or a name.
func (f *spec) value(text, whole string) (int, error) {
	if i := slices.Index(f.names, strings.ToUpper(text)); i >= 0 {
		return f.low + i, nil
	}
	n, err := strconv.Atoi(text)
	if err == nil && digits(text) && n >= f.low && n <= f.top {
		return n, nil
	}
	hint := "write * for every " + f.name
	names := ""
	if f.names != nil {
		names = " or " + f.names[0] + " to " + f.names[len(f.names)-1]
	}
	switch {
	case f == &specs[weekdayField] && text == "0":
		hint = "Sunday is 1 or SUN here, and Saturday 7 or SAT"
	case text == "?":
		hint = "write * in its place"
	case text == "":
		return 0, f.refuse(whole, "has a range without an end").WithHint("a range is written a-b, like %d-%d", f.low, f.top)
	}
	return 0, f.refuse(whole, "has %s, which is not a number from %d to %d%s", strconv.Quote(text), f.low, f.top, names).WithHint("%s", hint)
}

// refuse names the field and how it was written.
func (f *spec) refuse(text, format string, args ...any) *fault.Error {
	e := refusal(format, args...)
	e.Message = "the " + f.name + " field " + strconv.Quote(text) + " " + e.Message
	return e
}

func digits(text string) bool {
	return text != "" && len(text) <= 2 && !strings.ContainsFunc(text, func(r rune) bool { return r < '0' || r > '9' })
}

// specialDay reads L, L-n, LW, L-nW and nW.
func (s *Schedule) specialDay(f *spec, text string) error {
	const form = "L is the last day, L-3 the third before it, 15W the weekday nearest to the 15th, LW the last weekday; each stands alone"
	refused := f.refuse(text, "is not a form of L or W").WithHint(form)
	if strings.ContainsAny(text, "lw") {
		return f.refuse(text, "has a small l or w").WithHint("write %s", strings.ToUpper(text))
	}
	if strings.Contains(text, ",") {
		return f.refuse(text, "has L or W in a list; they stand alone").WithHint("make two crons of it")
	}
	rest, nearest := strings.CutSuffix(text, "W")
	d := monthDay{nearest: nearest}
	after, last := strings.CutPrefix(rest, "L")
	switch {
	case last && after == "":
		d.last = true
	case last:
		offset, ok := strings.CutPrefix(after, "-")
		n, err := strconv.Atoi(offset)
		if !ok || err != nil || !digits(offset) {
			return refused
		}
		if n < 1 || n > f.top-f.low {
			return f.refuse(text, "goes back by %d days from the last day, which is not 1 to %d", n, f.top-f.low).WithHint("write L for the last day itself")
		}
		d.last, d.offset = true, n
	default:
		if strings.Contains(rest, "L") || strings.ContainsAny(rest, "-/W") {
			return refused
		}
		n, err := f.value(rest, text)
		if err != nil {
			return err
		}
		d.number = n
	}
	s.day = d
	return nil
}

// specialWeekday reads L, nL and n#m.
func (s *Schedule) specialWeekday(f *spec, text string) error {
	switch {
	case strings.HasSuffix(text, "l"):
		return f.refuse(text, "has a small l").WithHint("write %s", strings.ToUpper(text))
	case text == "L":
		s.weekday.list = 1 << f.top // the last day of the week
		s.words[weekdayField] = field{items: []item{{from: f.top, to: f.top}}}
		return nil
	case strings.Contains(text, ","):
		return f.refuse(text, "has L or # in a list; they stand alone").WithHint("make two crons of it")
	}
	day, nth, numbered := strings.Cut(text, "#")
	if !numbered {
		day = strings.TrimSuffix(text, "L")
	}
	n, err := f.value(day, text)
	if err != nil {
		return err
	}
	s.weekday = weekDay{number: n, nth: lastOne}
	if numbered {
		m, err := strconv.Atoi(nth)
		if err != nil || !digits(nth) || m < 1 || m > 5 {
			return f.refuse(text, "wants day %s of a month; it can be 1 to 5", strconv.Quote(nth)).WithHint("MON#1 is the first Monday of the month, MONL the last")
		}
		s.weekday.nth = m
	}
	return nil
}
