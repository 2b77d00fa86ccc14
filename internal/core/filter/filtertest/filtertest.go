// Package filtertest makes filters and messages for the tests of those who evaluate filters. Both are made of few words, so
// that many pairs of them match.
package filtertest

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/runlot/runlot/internal/core/filter"
	"github.com/runlot/runlot/internal/core/queue"
)

// Choice returns a number from 0 to below n. What is made depends on its answers alone.
type Choice func(n int) int

func pick[T any](choose Choice, list ...T) T { return list[choose(len(list))] }

// Now is the time at which the messages are looked at, in milliseconds since 1970 UTC.
const Now = 1_700_000_000_000

var (
	names   = []string{"a", "b", "id", "a b", `q"`, "0", "-1", "ä", "", "1", " 1", "+1", "x1", "$", "99999999999"}
	words   = []string{"eu", "EU", "42", "42.0", "4.2e1", "-7", "true", "null", "x y", `say "hi"`, `back\slash`, "Späť", "", "%", "_", "1e3", "0.5", "12345678901234567890123", "\u2028", "tab\t"}
	numbers = []string{"42", "42.0", "4.2e1", "-7", "0", "-0", "0.50", "1e3", "12345678901234567890123", "12345678901234567890124", "1e-300", "1E+2", "0e9"}
	// odd are bodies that are no documents, or hardly.
	odd = []string{
		"", " ", "{", `{"a":1} x`, `{"a":"\u0000"}`, `{"a":42,"b":"\ud800"}`, `{"a":42,"b":"\ud83d\ude00"}`, `{"a":42,"b":1e200000}`, `{"a":42,"b":1e-20000}`,
		`{"a":42,"b":0e-20000}`, `{"a":42,"b":0e20000}`, `{"a":1e131071}`, `{"a":1,"a":42}`, "{\"a\":42,\"b\":\"\xff\"}", "\x00EU42", "\xff\xfeeu", `"eu"`, "42", "null", `{"a":01}`, `{"a":.5}`,
		"{\"a\":\"\n\"}", ` {"a" : 42 } `, "\ufeff{\"a\":42}", `{"a":42,}`, `{"a":"\u00e4"}`, `{"a":"\x"}`, `{"a":-}`, `{"a":NaN}`, `\303`, `\\303`, "\xc3",
	}
	sources = []string{"", "jobs", "other"}
	states  = []string{filter.Visible, filter.Delayed, filter.InFlight}
)

// Filter makes a filter of up to three terms.
func Filter(choose Choice) filter.Filter {
	var f filter.Filter
	for range choose(4) {
		f.Terms = append(f.Terms, term(choose))
	}
	return f
}

func term(choose Choice) filter.Term {
	ops := []filter.Op{filter.Is, filter.More, filter.AtLeast, filter.Less, filter.AtMost}
	t := filter.Term{Not: choose(4) == 0, Op: filter.Is}
	switch choose(12) {
	case 0:
		t.Field, t.Text = filter.State, pick(choose, states...)
	case 1:
		t.Field, t.Text = filter.ID, queue.NewID(1, int64(choose(9))).String()
	case 2:
		t.Field, t.Op, t.Number = filter.Age, ops[1+choose(4)], int64(choose(5))*30_000
	case 3:
		t.Field, t.Op, t.Number = filter.Attempts, pick(choose, ops...), int64(choose(4))
	case 4:
		t.Field, t.Op, t.Number = filter.Size, pick(choose, ops...), int64(choose(40))
	case 5:
		t.Field, t.Text = filter.Source, pick(choose, "jobs", "other", "none")
	case 6:
		t.Field, t.Text = filter.Reason, pick(choose, "e", "ERROR", "späť", "Späť", "%", `"`)
	case 7, 8:
		if t.Text = pick(choose, words...); t.Text == "" {
			t.Text = "a"
		}
	default:
		t.Field, t.Path = filter.Body, path(choose)
		if choose(3) == 0 {
			t.Op, t.Text = ops[1+choose(4)], pick(choose, numbers...)
			return t
		}
		t.Text = pick(choose, append(words, numbers...)...)
		t.Quoted = choose(3) == 0 || t.Text == "" || strings.ContainsAny(t.Text, " \t\"")
	}
	return t
}

func path(choose Choice) []string {
	list := []string{pick(choose, names...)}
	for choose(3) == 0 && len(list) < 3 {
		list = append(list, pick(choose, names...))
	}
	return list
}

// Subject makes a message.
func Subject(choose Choice) filter.Subject {
	s := filter.Subject{
		ID: queue.NewID(1, int64(choose(9))), State: pick(choose, states...), SentAt: Now - int64(choose(150_000)), Attempts: choose(4),
		Source: pick(choose, sources...), Format: pick(choose, queue.JSON, queue.JSON, queue.JSON, queue.Text, queue.Bytes, queue.V8), Body: Body(choose),
	}
	if choose(8) == 0 {
		s.SentAt = Now - int64(choose(5))*30_000
	}
	if s.Source != "" {
		s.Reason = pick(choose, "", "Error: Späť", `TypeError: "x"`, "100%")
	}
	s.Size = len(s.Body)
	return s
}

// Body makes a body: mostly JSON.
func Body(choose Choice) []byte {
	if choose(4) == 0 {
		return []byte(pick(choose, odd...))
	}
	var b strings.Builder
	value(choose, &b, 3)
	return []byte(b.String())
}

func value(choose Choice, b *strings.Builder, depth int) {
	kind := choose(8)
	if depth == 0 {
		kind = 4 + choose(4)
	}
	switch kind {
	case 0, 1, 2:
		b.WriteByte('{')
		for i := range 1 + choose(3) {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(quoted(pick(choose, names...)) + ":")
			value(choose, b, depth-1)
		}
		b.WriteByte('}')
	case 3:
		b.WriteByte('[')
		for i := range choose(4) {
			if i > 0 {
				b.WriteByte(',')
			}
			value(choose, b, depth-1)
		}
		b.WriteByte(']')
	case 4:
		b.WriteString(pick(choose, numbers...))
	case 5:
		b.WriteString(pick(choose, "true", "false", "null"))
	case 6:
		b.WriteString(strconv.Itoa(choose(50)))
	default:
		b.WriteString(quoted(pick(choose, words...)))
	}
}

func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic("filtertest: a string always marshals: " + err.Error())
	}
	return string(b)
}
