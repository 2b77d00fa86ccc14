// Package view draws the page: its templates, and how numbers, times and names look in them.
package view

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"
)

//go:embed templates/*.html
var sources embed.FS

var templates = template.Must(template.New("").Option("missingkey=error").Funcs(template.FuncMap{
	"count": Count, "bytes": Bytes, "size": func(n int) string { return Bytes(int64(n)) }, "span": Span, "clock": clock, "iso": iso, "stamp": stamp, "path": url.PathEscape, "percent": percent,
	"plural": plural, "quote": Quote, "share": share, "dict": dict, "short": short, "day": day, "points": Points, "most": Most, "rate": Rate, "last": last,
}).ParseFS(sources, "templates/*.html"))

// Write draws a template.
func Write(w io.Writer, name string, data any) error { return templates.ExecuteTemplate(w, name, data) }

// unknown is how what is not known looks.
const unknown = "–"

// Count is an int or int64 with its thousands apart; those below 0 are not known.
func Count(n any) string {
	digits := fmt.Sprint(n)
	if strings.HasPrefix(digits, "-") {
		return unknown
	}
	var b strings.Builder
	for i, c := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteRune('\u202f') // a narrow space that does not break
		}
		b.WriteRune(c)
	}
	return b.String()
}

// Bytes is a size in the largest unit that leaves a digit before the point.
func Bytes(n int64) string {
	if n < 0 {
		return unknown
	}
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	size, unit := float64(n), 0
	for size >= 1024 && unit < len(units)-1 {
		size /= 1024
		unit++
	}
	digits := 0
	if unit > 0 && size < 10 {
		digits = 1
	}
	return strconv.FormatFloat(size, 'f', digits, 64) + "\u00a0" + units[unit]
}

// Span is a time in milliseconds, as it is said.
func Span(milliseconds float64) string {
	d := time.Duration(milliseconds * float64(time.Millisecond))
	switch {
	case d < time.Millisecond:
		return "<\u00a01\u00a0ms"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "\u00a0ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "\u00a0s"
	case d < time.Hour:
		return strconv.FormatInt(int64(d/time.Minute), 10) + "\u00a0min\u00a0" + strconv.FormatInt(int64(d%time.Minute/time.Second), 10) + "\u00a0s"
	case d < 48*time.Hour:
		return strconv.FormatInt(int64(d/time.Hour), 10) + "\u00a0h\u00a0" + strconv.FormatInt(int64(d%time.Hour/time.Minute), 10) + "\u00a0min"
	default:
		return strconv.FormatInt(int64(d/(24*time.Hour)), 10) + "\u00a0days"
	}
}

// A time is drawn in UTC; the browser shows how long ago it is.
func iso(t time.Time) string   { return t.UTC().Format(time.RFC3339Nano) }
func clock(t time.Time) string { return t.UTC().Format("15:04:05") }
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
func day(t time.Time) string   { return t.UTC().Format("2006-01-02 15:04") }

func percent(part, whole int64) int64 {
	if whole <= 0 {
		return 0
	}
	return min(100, part*100/whole)
}

// share is percent, and "<1" for little.
func share(part, whole int64) string {
	if p := percent(part, whole); p > 0 || part == 0 {
		return strconv.FormatInt(p, 10) + "\u00a0%"
	}
	return "<\u00a01\u00a0%"
}

func plural(n any, one, many string) string {
	if n == 1 || n == int64(1) {
		return Count(n) + "\u00a0" + one
	}
	return Count(n) + "\u00a0" + many
}

// Quote is a word of a shell's command.
func Quote(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(c rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+,", c)
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// short is the beginning of an id that tells it from others: its first 8 digits alone are those of a time.
func short(id string) string {
	const most = 13
	if len(id) <= most {
		return id
	}
	return id[:most]
}

// last is the newest of a list of rates; 0 of none.
func last(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return values[len(values)-1]
}

// dict is a value with names, for a template that takes several things.
func dict(pairs ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		m[name] = pairs[i+1]
	}
	return m
}

// HTML is text that a template has drawn.
func HTML(drawn string) template.HTML {
	return template.HTML(drawn) //nolint:gosec // G203: it comes from a template of this package
}
