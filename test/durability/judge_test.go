//go:build linux

package durability_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	// settledAfter is how long after its report a delivery's ack is surely committed while everything runs.
	settledAfter = 2 * time.Second
	// recoveredAfter is how long the last handlers that a lost broker called may go on beside the next one.
	recoveredAfter = time.Second
	// shown is the most problems of one kind that are listed.
	shown = 5
)

// judgement is what a history amounts to.
type judgement struct {
	sent, acknowledged, unsure, delivered, deliveries, deadLetters, duplicates, bound int
	problems                                                                          map[string][]string
}

func (j *judgement) problemf(kind, format string, args ...any) {
	j.problems[kind] = append(j.problems[kind], fmt.Sprintf(format, args...))
}

func (j *judgement) String() string {
	return fmt.Sprintf("%d sent, %d acknowledged, %d delivered without an acknowledgement, %d delivered in %d deliveries, %d dead letters, %d duplicates (at most %d)",
		j.sent, j.acknowledged, j.unsure, j.delivered, j.deliveries, j.deadLetters, j.duplicates, j.bound)
}

// list shows the first problems of each kind.
func (j *judgement) list() []string {
	all := make([]string, 0, len(j.problems))
	for kind, list := range j.problems {
		all = append(all, fmt.Sprintf("%s (%d):\n\t%s", kind, len(list), strings.Join(list[:min(shown, len(list))], "\n\t")))
	}
	slices.Sort(all)
	return all
}

// mayRepeat is the most deliveries that one kill may have repeated: what the handlers were at when the worker died, and
// all that was between lease and commit when the node or its database did.
func (d *death) mayRepeat() int {
	if d.kind == killWorkerd {
		return (jobsConcurrency + deadConcurrency) * batchSize
	}
	return 2 * unsettledBatches * batchSize
}

// covers reports whether a message that was delivered at a time may have been in flight when d happened.
func (d *death) covers(at time.Time) bool {
	return !at.Before(d.at.Add(-settledAfter)) && !at.After(d.over.Add(recoveredAfter))
}

// judge holds a history that is at its end, with everything drained, against the promises.
func judge(h *history) *judgement {
	h.mu.Lock()
	defer h.mu.Unlock()
	j := &judgement{sent: len(h.messages), problems: map[string][]string{}}
	for _, id := range h.unknown {
		j.problemf("delivered and never sent", "%q", id)
	}
	repeats := make([]int, len(h.deaths))
	batches := map[int][]*message{}
	for _, m := range h.messages {
		if m.batch {
			batches[m.call] = append(batches[m.call], m)
		}
		if m.acknowledged {
			j.acknowledged++
		}
		if len(m.deliveries) > 0 {
			j.delivered++
			j.deliveries += len(m.deliveries)
			if !m.acknowledged {
				j.unsure++
			}
		}
		j.judgeMessage(m, h.deaths, repeats)
	}
	for _, batch := range batches {
		there := 0
		for _, m := range batch {
			if len(m.deliveries) > 0 {
				there++
			}
		}
		if there != 0 && there != len(batch) {
			j.problemf("half a sendBatch", "%d of %d messages of the batch with %q (acknowledged: %t)", there, len(batch), batch[0].body.ID, batch[0].acknowledged)
		}
	}
	for i := range h.deaths {
		d := &h.deaths[i]
		j.bound += d.mayRepeat()
		// What was repeated cannot always be told to be one kill's or that of the next.
		bound := 0
		for k := range h.deaths {
			if o := &h.deaths[k]; o.at.Add(-settledAfter-recoveredAfter).Before(d.over) && d.at.Add(-settledAfter-recoveredAfter).Before(o.over) {
				bound += o.mayRepeat()
			}
		}
		if repeats[i] > bound {
			j.problemf("more duplicates than were in flight", "%d after kill %d (%s), at most %d", repeats[i], i+1, d.kind, bound)
		}
	}
	return j
}

// judgeMessage looks at one message's deliveries, and counts in repeats which kill repeated which.
func (j *judgement) judgeMessage(m *message, deaths []death, repeats []int) {
	name := fmt.Sprintf("%s (fails %d, %s)", m.body.ID, m.body.Fails, m.body.How)
	if len(m.deliveries) == 0 {
		if m.acknowledged {
			j.problemf("acknowledged and lost", "%s", name)
		}
		return
	}
	if !m.finished() {
		j.problemf("delivered and lost before its end", "%s after %s", name, m.trace(deaths))
	}
	failures, deadLetter := 0, false
	for i := range m.deliveries {
		d := &m.deliveries[i]
		if d.body != m.body || d.id != m.deliveries[0].id || d.timestamp != m.deliveries[0].timestamp {
			j.problemf("changed on the way", "%s: %+v, first %+v", name, *d, m.deliveries[0])
		}
		deadLetter = deadLetter || d.queue == dead
		if d.queue == jobs {
			failures++
			if deadLetter {
				j.problemf("delivered after it was dead-lettered", "%s: %s", name, m.trace(deaths))
			}
		}
		if i == 0 {
			if d.attempts != 1 || d.queue != jobs {
				j.problemf("wrong count of attempts", "%s: %s", name, m.trace(deaths))
			}
			continue
		}
		j.judgeRepeat(name, m, i, deaths, repeats)
	}
	// Each kill loses at most one of its deliveries, which spends no retry.
	lost := 0
	for k := range deaths {
		if slices.ContainsFunc(m.deliveries, func(d delivery) bool { return deaths[k].covers(d.at) }) {
			lost++
		}
	}
	if failures > maxRetries+1+lost {
		j.problemf("delivered more often than its retries allow", "%s: %s", name, m.trace(deaths))
	}
	if deadLetter {
		j.deadLetters++
		if !m.body.deadLetter() {
			j.problemf("dead-lettered with retries left", "%s: %s", name, m.trace(deaths))
		}
		if failures < maxRetries+1 {
			j.problemf("dead-lettered with retries left", "%s: %s", name, m.trace(deaths))
		}
	}
}

// judgeRepeat looks at delivery i of a message: it follows from a retry of the one before, or a kill explains it.
func (j *judgement) judgeRepeat(name string, m *message, i int, deaths []death, repeats []int) {
	before, d := &m.deliveries[i-1], &m.deliveries[i]
	sameQueue := before.queue == d.queue
	follows := !before.settles() && sameQueue && d.attempts == before.attempts+1
	moved := !before.settles() && before.queue == jobs && d.queue == dead && d.attempts == 1
	if follows || moved {
		return
	}
	j.duplicates++
	if (sameQueue && (d.attempts < before.attempts || d.attempts > before.attempts+1)) || (!sameQueue && d.attempts != 1) {
		j.problemf("wrong count of attempts", "%s: %s", name, m.trace(deaths))
	}
	nearest, distance := -1, time.Duration(0)
	for k := range deaths {
		death := &deaths[k]
		if away := before.at.Sub(death.at).Abs(); death.covers(before.at) && death.at.Before(d.at) && (nearest < 0 || away < distance) {
			nearest, distance = k, away
		}
	}
	if nearest < 0 {
		j.problemf("delivered again though no kill explains it", "%s: %s", name, m.trace(deaths))
		return
	}
	repeats[nearest]++
}

// trace tells the deliveries of a message and the kills in between.
func (m *message) trace(deaths []death) string {
	type event struct {
		at   time.Time
		text string
	}
	var events []event
	for i := range m.deliveries {
		d := &m.deliveries[i]
		events = append(events, event{d.at, fmt.Sprintf("%s attempt %d", d.queue, d.attempts)})
	}
	first, last := m.deliveries[0].at.Add(-settledAfter), m.deliveries[len(m.deliveries)-1].at.Add(settledAfter)
	for k := range deaths {
		if d := &deaths[k]; d.at.After(first) && d.at.Before(last) {
			events = append(events, event{d.at, fmt.Sprintf("kill %d (%s)", k+1, d.kind)}, event{d.over, fmt.Sprintf("kill %d over", k+1)})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return a.at.Compare(b.at) })
	texts := make([]string, len(events))
	for i, e := range events {
		texts[i] = e.at.Format("15:04:05.000 ") + e.text
	}
	return strings.Join(texts, ", ")
}

// TestJudge gives the judge a history with one fault each, which it has to find, and one without.
func TestJudge(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	// Every history has one kill, from second 10 to second 12.
	deliver := func(h *history, seconds float64, queue string, attempts int, b body) {
		h.deliver(delivery{at: at(seconds), queue: queue, id: "id-" + b.ID, timestamp: "then", attempts: attempts, body: b})
	}
	send := func(h *history, err error, bodies ...body) {
		h.sending(bodies)
		h.sent(bodies, err)
	}
	one, two, bad := body{ID: "1"}, body{ID: "2"}, body{ID: "bad", Fails: maxRetries + 1}
	twice := body{ID: "twice", Fails: 1}
	unsure := fmt.Errorf("the connection broke")
	fine := func(h *history) {
		send(h, nil, one, two)
		send(h, nil, bad)
		send(h, unsure, twice)
		send(h, unsure, body{ID: "never"}, body{ID: "ever"})
		deliver(h, 1, jobs, 1, one)
		deliver(h, 9.5, jobs, 1, two)
		deliver(h, 11.5, jobs, 1, two)
		deliver(h, 13, jobs, 2, two)
		for attempt := range maxRetries + 1 {
			deliver(h, 2, jobs, attempt+1, bad)
		}
		deliver(h, 2.5, dead, 1, bad)
		deliver(h, 3, jobs, 1, twice)
		deliver(h, 3.5, jobs, 2, twice)
	}
	for _, test := range []struct {
		name, problem string
		happens       func(*history)
	}{
		{"fine", "", fine},
		{"lost", "acknowledged and lost", func(h *history) { send(h, nil, one) }},
		{"lost while it waits for its retry", "delivered and lost before its end", func(h *history) {
			send(h, nil, twice)
			deliver(h, 1, jobs, 1, twice)
		}},
		{"lost on the way to the dead letters", "delivered and lost before its end", func(h *history) {
			send(h, nil, bad)
			for attempt := range maxRetries + 1 {
				deliver(h, 2, jobs, attempt+1, bad)
			}
		}},
		{"half a batch", "half a sendBatch", func(h *history) {
			send(h, unsure, one, two)
			deliver(h, 1, jobs, 1, one)
		}},
		{"never sent", "delivered and never sent", func(h *history) { deliver(h, 1, jobs, 1, one) }},
		{"again without a kill", "delivered again though no kill explains it", func(h *history) {
			send(h, nil, one)
			deliver(h, 15, jobs, 1, one)
			deliver(h, 16, jobs, 1, one)
		}},
		{"again after a kill, and long settled", "delivered again though no kill explains it", func(h *history) {
			send(h, nil, one)
			deliver(h, 7.5, jobs, 1, one)
			deliver(h, 13, jobs, 1, one)
		}},
		{"again before the kill", "delivered again though no kill explains it", func(h *history) {
			send(h, nil, one)
			deliver(h, 9.2, jobs, 1, one)
			deliver(h, 9.8, jobs, 1, one)
		}},
		{"retry forgotten", "delivered again though no kill explains it", func(h *history) {
			send(h, nil, twice)
			deliver(h, 1, jobs, 1, twice)
			deliver(h, 13, jobs, 1, twice)
			deliver(h, 14, jobs, 2, twice)
		}},
		{"attempts go back", "wrong count of attempts", func(h *history) {
			send(h, nil, bad)
			deliver(h, 1, jobs, 1, bad)
			deliver(h, 9.5, jobs, 2, bad)
			deliver(h, 12, jobs, 1, bad)
		}},
		{"attempts begin late", "wrong count of attempts", func(h *history) {
			send(h, nil, one)
			deliver(h, 1, jobs, 2, one)
		}},
		{"dead letter too early", "dead-lettered with retries left", func(h *history) {
			send(h, nil, bad)
			deliver(h, 1, jobs, 1, bad)
			deliver(h, 2, dead, 1, bad)
		}},
		{"dead letter without need", "dead-lettered with retries left", func(h *history) {
			send(h, nil, one)
			deliver(h, 9.5, jobs, 1, one)
			deliver(h, 12, dead, 1, one)
		}},
		{"one failure too many", "delivered more often than its retries allow", func(h *history) {
			send(h, nil, bad)
			for attempt := range maxRetries + 2 {
				deliver(h, 2, jobs, attempt+1, bad)
			}
			deliver(h, 2.5, dead, 1, bad)
		}},
		{"back from the dead letters", "delivered after it was dead-lettered", func(h *history) {
			send(h, nil, bad)
			for attempt := range maxRetries + 1 {
				deliver(h, 2, jobs, attempt+1, bad)
			}
			deliver(h, 9.9, dead, 1, bad)
			deliver(h, 13, jobs, 3, bad)
		}},
		{"another id", "changed on the way", func(h *history) {
			send(h, nil, one)
			deliver(h, 9.5, jobs, 1, one)
			h.deliver(delivery{at: at(13), queue: jobs, id: "another", timestamp: "then", attempts: 1, body: one})
		}},
		{"another body", "changed on the way", func(h *history) {
			send(h, nil, one)
			deliver(h, 1, jobs, 1, body{ID: "1", Text: "another"})
		}},
		{"more than was in flight", "more duplicates than were in flight", func(h *history) {
			for i := range 2*unsettledBatches*batchSize + 1 {
				b := body{ID: fmt.Sprint(i)}
				send(h, nil, b)
				deliver(h, 9.5, jobs, 1, b)
				deliver(h, 13, jobs, 1, b)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHistory()
			h.deaths = []death{{kind: killNode, at: at(10), over: at(12)}}
			test.happens(h)
			j := judge(h)
			if test.problem == "" && len(j.problems) > 0 {
				t.Errorf("problems: %v", j.list())
			}
			if test.problem != "" && len(j.problems[test.problem]) == 0 {
				t.Errorf("not found: %s; problems: %v", test.problem, j.list())
			}
		})
	}
	h := newHistory()
	h.deaths = []death{{kind: killWorkerd, at: at(10), over: at(12)}}
	fine(h)
	want := judgement{sent: 6, acknowledged: 3, unsure: 1, delivered: 4, deliveries: 10, deadLetters: 1, duplicates: 2, bound: 100}
	if got := judge(h); got.String() != want.String() {
		t.Errorf("got  %v\nwant %v", got, &want)
	}
}
