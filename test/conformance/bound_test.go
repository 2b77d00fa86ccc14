package conformance_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// boundCases are limits that the cases of send and of batches leave open.
func boundCases() []testCase {
	e := func(times int) object { return object{"repeat": times, "of": "é"} }
	asText := object{"contentType": "text"}
	batch := func(bodies ...any) []object {
		list := make([]object, len(bodies))
		for i, b := range bodies {
			list[i] = object{"body": b, "contentType": "text"}
		}
		return list
	}
	x := func(size int) string { return strings.Repeat("x", size) }
	return []testCase{
		answered("limit-bytes", "the size of a body is counted in bytes of UTF-8, not in characters", limits,
			"send", "bytes",
			[]call{
				{"BYTES", "send", e(64_000), asText},
				{"BYTES", "send", e(64_001), asText},
				{"BYTES", "send", e(63_999)},
				{"BYTES", "send", e(64_000)},
			},
			[]string{
				"ok", "Error: message length of 128002 bytes exceeds limit of 128000 (10204) [10204]",
				"ok", "Error: message length of 128002 bytes exceeds limit of 128000 (10204) [10204]",
			},
			[]string{"128000 characters", "128002 characters"},
			accepted("characters are counted", 1), accepted("the quotes of JSON are not counted", 3), uncoded(1),
			changes("the limit is one byte lower", func(o *observation) { o.Left = o.Left[1:] }),
		),
		answered("limit-batch-runlot", "a sendBatch has at most 262,144 bytes and 100 messages in the runlot dialect", limits,
			"runlot", "runlot-whole",
			[]call{
				{"WHOLE", "sendBatch", batch(x(131_072), x(131_072))},
				{"WHOLE", "sendBatch", batch(x(131_072), x(131_072), "x")},
				{"WHOLE", "sendBatch", batch(slices.Repeat([]any{"x"}, 101)...)},
				{"WHOLE", "sendBatch", batch("x", x(131_073))},
			},
			[]string{
				"ok", "Error: batch size of 262145 bytes exceeds limit of 262144 bytes (10205) [10205]",
				"Error: batch message count of 101 exceeds limit of 100 (10206) [10206]",
				"Error: message 1: message length of 131073 bytes exceeds limit of 131072 (10204) [10204]",
			},
			[]string{"131074 characters", "131074 characters"},
			accepted("one byte too many is accepted", 1), accepted("101 messages are accepted", 2), uncoded(1),
			stays("a refused batch is half there"), gone("the largest batch is refused", `"`+x(131_072)+`"`),
		),
		answered("limit-batch-delay", "a delay of 0 or of 86,400 seconds for a whole sendBatch is accepted, one below 0 refused with 10202", cloudflare+", Error codes",
			"send", "batch-delays",
			[]call{
				{"BATCH_DELAYS", "sendBatch", batch("longest"), object{"delaySeconds": 86_400}},
				{"BATCH_DELAYS", "sendBatch", batch("none"), object{"delaySeconds": 0}},
				{"BATCH_DELAYS", "sendBatch", batch("below"), object{"delaySeconds": -1}},
			},
			[]string{"ok", "ok", "Error: delay of -1 seconds is outside 0 to 86400 (10202) [10202]"},
			[]string{`"longest"`, `"none"`},
			accepted("a delay below 0 is accepted", 2), uncoded(2), gone("the longest delay is refused", `"longest"`),
		),
		stalled(),
		mostTogether(),
	}
}

// stalled locks the table of messages until the producer calls have been answered.
func stalled() testCase {
	c := testCase{
		id: "send-stalled", rule: "when the database stalls, send and sendBatch fail within 10 s with 10250, and a sendBatch is there whole or not at all",
		source: limits, app: "stalled",
	}
	c.drive = func(r *run) {
		db := r.house.databases["stalled"]
		tx, err := db.Begin(r.Context())
		if err == nil {
			_, err = tx.Exec(r.Context(), "LOCK TABLE runlot_queue.message IN SHARE ROW EXCLUSIVE MODE")
		}
		if err != nil {
			r.Fatal(err)
		}
		began := time.Now()
		three := []object{{"body": body{N: "a"}}, {"body": body{N: "b"}}, {"body": body{N: "c"}}}
		for _, one := range []call{{"send", body{N: "one"}}, {"sendBatch", three}} {
			r.calls(one)
		}
		// Each call has 10 s; a busy machine may add to that.
		r.fact("in time", time.Since(began) < 2*10*time.Second+patience/2)
		if err := tx.Rollback(r.Context()); err != nil {
			r.Fatal(err)
		}
		r.calls(call{"send", body{N: "after"}})
		var left string
		if err := db.QueryRow(r.Context(), "SELECT coalesce(string_agg(body->>'n', ' ' ORDER BY sent_at, id), '') FROM runlot_queue.messages").Scan(&left); err != nil {
			r.Fatal(err)
		}
		r.fact("left", left)
	}
	c.check = func(o *observation) error {
		got := make([]string, 0, len(o.Answers))
		for i := range o.Answers {
			got = append(got, o.Answers[i].String())
		}
		const refused = "Error: Queue is overloaded. Please back off. (10250) [10250]"
		if want := []string{refused, refused, "ok"}; !slices.Equal(got, want) {
			return fmt.Errorf("answers %q, want %q", got, want)
		}
		if o.Facts["in time"] != "true" {
			return errors.New("the answers took longer than they may")
		}
		// A call that failed so may have been committed or not; its messages are there together.
		if left := o.Facts["left"]; !slices.Contains([]string{"after", "one after", "a b c after", "one a b c after"}, left) {
			return fmt.Errorf("left: %s", left)
		}
		return nil
	}
	left := func(name, left string) wrong { return changes(name, func(o *observation) { o.Facts["left"] = left }) }
	c.wrong = []wrong{
		changes("a call waits for ever", func(o *observation) { o.Facts["in time"] = "false" }),
		accepted("a call returns before the commit", 0), uncoded(1),
		left("what is accepted later is lost", ""), left("a batch is half there", "a b after"), left("a call is there twice", "one after one"),
	}
	return c
}

// mostTogether is held with more messages than one call sends.
func mostTogether() testCase {
	return held("most-together", "max_concurrency 250, the most, runs 250 batches at a time and no more, while another queue is served", 260, 250,
		changes("a 251st runs beside them", func(o *observation) { o.Facts["together"] = "251" }),
		changes("a 251st runs later on", func(o *observation) { o.Facts["most"] = "251" }),
		changes("there is a lower limit", func(o *observation) { o.Facts["most"] = "249" }))
}
