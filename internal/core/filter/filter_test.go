package filter_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/filter"
	"github.com/runlot/runlot/internal/core/filter/filtertest"
	"github.com/runlot/runlot/internal/core/queue"
)

func TestParse(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 2)
	for text, want := range map[string][]filter.Term{
		"":                          nil,
		"  ":                        nil,
		"state:in-flight":           {{Field: filter.State, Op: filter.Is, Text: "in_flight"}},
		"-state=Delayed":            {{Not: true, Field: filter.State, Op: filter.Is, Text: "delayed"}},
		"id:" + strings.ToUpper(id): {{Field: filter.ID, Op: filter.Is, Text: id}},
		"age>5m  age<1h30m":         {{Field: filter.Age, Op: filter.More, Number: 300_000}, {Field: filter.Age, Op: filter.Less, Number: 5_400_000}},
		"age>=2d1ms":                {{Field: filter.Age, Op: filter.AtLeast, Number: 172_800_001}},
		"attempts>=2 size<=1k":      {{Field: filter.Attempts, Op: filter.AtLeast, Number: 2}, {Field: filter.Size, Op: filter.AtMost, Number: 1024}},
		"size:2MB":                  {{Field: filter.Size, Op: filter.Is, Number: 2 << 20}},
		`source:jobs reason:"x y"`:  {{Field: filter.Source, Op: filter.Is, Text: "jobs"}, {Field: filter.Reason, Op: filter.Is, Text: "x y"}},
		"body.user.id:42":           {{Field: filter.Body, Path: []string{"user", "id"}, Op: filter.Is, Text: "42"}},
		`body."a.b".0:"42"`:         {{Field: filter.Body, Path: []string{"a.b", "0"}, Op: filter.Is, Text: "42", Quoted: true}},
		"body.n>-1.5e3":             {{Field: filter.Body, Path: []string{"n"}, Op: filter.More, Text: "-1.5e3"}},
		"body.at:2026-11-30T10:00":  {{Field: filter.Body, Path: []string{"at"}, Op: filter.Is, Text: "2026-11-30T10:00"}},
		`"free \"text\""`:           {{Op: filter.Is, Text: `free "text"`}},
		"-timeout a.b@c":            {{Not: true, Op: filter.Is, Text: "timeout"}, {Op: filter.Is, Text: "a.b@c"}},
		"body":                      {{Op: filter.Is, Text: "body"}},
		`body.x:""`:                 {{Field: filter.Body, Path: []string{"x"}, Op: filter.Is, Quoted: true}},
	} {
		f, err := filter.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, f.Terms); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestFaultsNameThePlaceAndTheWayOut(t *testing.T) {
	for text, want := range map[string]string{
		"ä stat:x":          `at character 3: there is nothing named "stat" to look at — put text in quotes`,
		"state:gone":        "at character 7: state cannot be compared with gone — the states are",
		"id:7":              "at character 4: id cannot be compared with 7 — an id has 32",
		"age:5m":            "write age>5m",
		"age>5":             "write age>5m",
		"age>999999999999d": "write age>5m",
		"attempts>-1":       "like attempts>=2",
		"size>9999999m":     "size>1k",
		"source>x":          "source is not more or less than something — write source:x",
		"body.x>abc":        "more and less are for numbers",
		"body.x>1e200000":   "more and less are for numbers",
		"body.x:1e200000":   "too many digits",
		"body.:1":           "the name of a value in the body is missing",
		"body:1":            "write body.NAME:VALUE",
		"user.id:42":        "for a value within the body write body.user.id:42",
		`"open`:             "the quote is not closed",
		`"\q"`:              "stands for nothing",
		`"\u0000"`:          "stands for nothing",
		`"a"b`:              "at character 4: a term goes on behind its quotes",
		`a"b`:               "there is a quote within the text",
		`body.x:a"b`:        "there is a quote within the value",
		`""`:                "no text between the quotes",
		"- x":               "- turns around the term behind it",
		"--x":               "put text that begins with - in quotes",
		"state:":            "the value of state is missing",
		"body.x":            "a comparison is missing",
		"body.x: 1":         "the value of body is missing",
		"a\x00":             "no text in UTF-8 without NUL",
		"\xff":              "no text in UTF-8 without NUL",
	} {
		_, err := filter.Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) || fault.From(err).Code != filter.CodeInvalid {
			t.Errorf("%s: %v, want …%s…", text, err, want)
		}
	}
	for _, text := range []string{strings.Repeat("a", queue.FilterBytes+1), strings.Repeat("a ", queue.FilterTerms+1)} {
		if _, err := filter.Parse(text); fault.KindOf(err) != fault.Limit {
			t.Errorf("%.20s…: %v", text, err)
		}
	}
}

func TestWhatIsWrittenReadsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := filtertest.Filter(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") })
		again, err := filter.Parse(f.String())
		if err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		if diff := cmp.Diff(f, again); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", f, diff)
		}
		if again.String() != f.String() {
			t.Fatalf("%s is written %s", f, again)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(`-body."a".0>=1e3 age<1h "x"`)
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := filter.Parse(text)
		if err != nil {
			return
		}
		if again, err := filter.Parse(parsed.String()); len(parsed.String()) <= queue.FilterBytes && (err != nil || !cmp.Equal(parsed, again)) {
			t.Fatalf("%q is written %q, which reads %v, %v", text, parsed, again, err)
		}
	})
}

func TestMatch(t *testing.T) {
	const now = 1_700_000_000_000
	s := filter.Subject{
		ID: queue.NewID(1, 2), State: filter.Delayed, SentAt: now - 600_000, Attempts: 2, Size: 2000, Source: "jobs", Reason: "Error: Späť",
		Format: queue.JSON, Body: []byte(`{"user":{"id":42,"big":12345678901234567890123,"name":"42"},"tags":["eu","us",7],"x":null,"y":true,"n":-1.50}`),
	}
	for text, want := range map[string]bool{
		"":                                      true,
		"state:delayed":                         true,
		"-state:delayed":                        false,
		"state:visible":                         false,
		"age>9m age<11m":                        true,
		"age>10m":                               false,
		"age>=10m":                              true,
		"attempts:2 attempts<3":                 true,
		"size>2k":                               false,
		"source:jobs -source:job":               true,
		"reason:error reason:SPäť":              true,
		"reason:SPÄŤ":                           false,
		"body.user.id:42":                       true,
		"body.user.id:42.0":                     true,
		"body.user.id:4.2e1":                    true,
		`body.user.id:"42"`:                     false,
		"body.user.name:42":                     true,
		"body.user.id>41.999":                   true,
		"body.user.id>42":                       false,
		"body.user.name>1":                      false,
		"body.user.big:12345678901234567890123": true,
		"body.user.big:12345678901234567890124": false,
		"body.user.big>12345678901234567890122": true,
		"body.tags:eu body.tags:7":              true,
		"body.tags:e":                           false,
		"body.tags.0:eu body.tags.-1:7":         true,
		"body.tags.3:eu":                        false,
		"body.x:null body.y:true":               true,
		`body.x:"null"`:                         false,
		"body.n:-1.5 body.n<-1":                 true,
		"-body.none:1":                          true,
		"EU":                                    true,
		`"\"tags\":["`:                          true,
		"-eu":                                   false,
		"id:00000000000000010000000000000002":   true,
	} {
		f, err := filter.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := f.Match(&s, now); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}

// What PostgreSQL does not take as jsonb has no values, and an uncommon body is still found by its text.
func TestBodiesThatAreNoDocuments(t *testing.T) {
	for body, ok := range map[string]bool{
		`{"a":1}`: true, `{"a":1} x`: false, `{"a":1,"b":"\u0000"}`: false, `{"a":1,"b":"\\u0000"}`: true, `{"a":1,"b":"\ud800"}`: false,
		`{"a":1,"b":"\ud83d\ude00"}`: true, `{"a":1,"b":"\ude00"}`: false, `{"a":1,"b":"\ud800x"}`: false, `{"a":1,"b":1e200000}`: false,
		`{"a":1,"b":1e-17000}`: false, `{"a":1,"b":1e130000}`: true, "{\"a\":1,\"b\":\"\xff\"}": false, `{"a":2,"a":1}`: true, `{"a":1,"b":"\ud800\n"}`: false,
	} {
		f, err := filter.Parse("body.a:1")
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Match(&filter.Subject{Format: queue.JSON, Body: []byte(body)}, 0); got != ok {
			t.Errorf("%s: %t", body, got)
		}
		if f.Match(&filter.Subject{Format: queue.Text, Body: []byte(body)}, 0) {
			t.Errorf("%s as text has values", body)
		}
	}
	f, err := filter.Parse("Ab")
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]bool{"xaB": true, "\x00ab": false, "\x00Ab": true, "\xff\xfeAB": true} {
		if got := f.Match(&filter.Subject{Format: queue.Bytes, Body: []byte(body)}, 0); got != want {
			t.Errorf("%q: %t", body, got)
		}
	}
}

func TestNarrowing(t *testing.T) {
	f, err := filter.Parse("age<1h -age>=30m -age<2m attempts>1 state:visible -state:delayed id:" + strings.Repeat("0", 32))
	if err != nil {
		t.Fatal(err)
	}
	if ids, ok := f.IDs(); !ok || len(ids) != 1 || f.Oldest() != 1_800_000 || !f.Only(filter.Visible) || f.Only(filter.Delayed) || f.NeedsBody() {
		t.Errorf("%v, %d", ids, f.Oldest())
	}
	if got := f.Changing().String(); got != "attempts>1 state:visible -state:delayed" {
		t.Error(got)
	}
	var none filter.Filter
	if _, ok := none.IDs(); ok || none.Oldest() != -1 || none.String() != "" {
		t.Error("the filter of everything narrows something")
	}
	if ids, ok := (filter.Filter{Terms: []filter.Term{{Field: filter.ID, Op: filter.Is, Text: "1"}, {Field: filter.ID, Op: filter.Is, Text: "2"}}}).IDs(); !ok || ids != nil {
		t.Error("two ids name one message")
	}
}
