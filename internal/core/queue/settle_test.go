package queue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// consumer is the consumer of the tables: three retries, waits of 10, 20, 40 s, a dead-letter queue.
func consumer() *Consumer {
	return &Consumer{
		Queue: "jobs", MaxRetries: 3, DeadLetterQueue: "jobs-dead",
		Backoff: Backoff{First: 10 * time.Second, Max: time.Hour},
	}
}

var (
	first  = NewID(7, 1)
	second = NewID(7, 2)
)

func acked(ids ...ID) map[ID]struct{} {
	m := map[ID]struct{}{}
	for _, id := range ids {
		m[id] = struct{}{}
	}
	return m
}

func retried(id ID, delay *time.Duration) map[ID]*time.Duration {
	return map[ID]*time.Duration{id: delay}
}

// TestSettlePrecedence is the whole rule, row by row: what the handler called, and how the message ends for each way
// in which the handler can end.
func TestSettlePrecedence(t *testing.T) {
	const own, all, none = 7 * time.Second, 9 * time.Second, 10 * time.Second
	ack := Decision{Seq: 1, Verdict: Ack}
	retry := func(delay time.Duration) Decision {
		return Decision{Seq: 1, Verdict: Retry, Delay: delay, Failures: 1}
	}
	tests := []struct {
		name   string
		report *Report
		ok     Decision
		failed Decision
	}{
		{"no report", nil, ack, retry(none)},
		{"nothing called", &Report{}, ack, retry(none)},
		{"ack", &Report{Acked: acked(first)}, ack, ack},
		{"ack of another message", &Report{Acked: acked(second)}, ack, retry(none)},
		{"retry", &Report{Retried: retried(first, nil)}, retry(none), retry(none)},
		{"retry with a delay", &Report{Retried: retried(first, new(own))}, retry(own), retry(own)},
		{"retry with 0", &Report{Retried: retried(first, new(time.Duration(0)))}, retry(0), retry(0)},
		{"retry of another message", &Report{Retried: retried(second, new(own))}, ack, retry(none)},
		{"ackAll", &Report{AckAll: true}, ack, ack},
		{"retryAll", &Report{RetryAll: true}, retry(none), retry(none)},
		{"retryAll with a delay", &Report{RetryAll: true, RetryAllDelay: new(all)}, retry(all), retry(all)},
		{"retryAll with 0", &Report{RetryAll: true, RetryAllDelay: new(time.Duration(0))}, retry(0), retry(0)},
		{"ack and retry", &Report{Acked: acked(first), Retried: retried(first, new(own))}, ack, ack},
		{"ack and retryAll", &Report{Acked: acked(first), RetryAll: true, RetryAllDelay: new(all)}, ack, ack},
		{"ack and ackAll", &Report{Acked: acked(first), AckAll: true}, ack, ack},
		{"retry and ackAll", &Report{Retried: retried(first, new(own)), AckAll: true}, retry(own), retry(own)},
		{"retry and ackAll, no delay", &Report{Retried: retried(first, nil), AckAll: true}, retry(none), retry(none)},
		{
			"the message's own delay beats retryAll's",
			&Report{Retried: retried(first, new(own)), RetryAll: true, RetryAllDelay: new(all)},
			retry(own), retry(own),
		},
		{
			"the message's own 0 beats retryAll's",
			&Report{Retried: retried(first, new(time.Duration(0))), RetryAll: true, RetryAllDelay: new(all)},
			retry(0), retry(0),
		},
		{
			"retry without a delay takes retryAll's",
			&Report{Retried: retried(first, nil), RetryAll: true, RetryAllDelay: new(all)},
			retry(all), retry(all),
		},
		{
			"a delay of retryAll without retryAll counts for nothing",
			&Report{Retried: retried(first, nil), RetryAllDelay: new(all)},
			retry(none), retry(none),
		},
		{"ackAll beats retryAll", &Report{AckAll: true, RetryAll: true, RetryAllDelay: new(all)}, ack, ack},
	}
	for _, test := range tests {
		for _, outcome := range []Outcome{OK, Failed, TimedOut} {
			want := test.failed
			if outcome == OK {
				want = test.ok
			}
			t.Run(test.name+"/"+string(outcome), func(t *testing.T) {
				got, warnings := Settle(consumer(), []Message{{Seq: 1, ID: first}}, outcome, test.report, 0)
				if diff := cmp.Diff([]Decision{want}, got); diff != "" {
					t.Errorf("decision (-want +got):\n%s", diff)
				}
				if warnings != nil {
					t.Errorf("warnings: %q", warnings)
				}
			})
		}
	}
}

func TestSettleOutOfRetries(t *testing.T) {
	tests := []struct {
		name       string
		maxRetries int
		deadLetter string
		failures   int
		want       Verdict
	}{
		{"last retry", 3, "jobs-dead", 2, Retry},
		{"the fourth failure of three retries", 3, "jobs-dead", 3, DeadLetter},
		{"the fourth failure without a dead-letter queue", 3, "", 3, Drop},
		{"a limit that was lowered meanwhile", 3, "jobs-dead", 9, DeadLetter},
		{"exactly once", 0, "jobs-dead", 0, DeadLetter},
		{"no retries and no dead-letter queue", 0, "", 0, Drop},
		{"one retry", 1, "", 0, Retry},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := &Consumer{MaxRetries: test.maxRetries, DeadLetterQueue: test.deadLetter}
			for _, outcome := range []Outcome{Failed, TimedOut} {
				got, _ := Settle(c, []Message{{Seq: 1, Failures: test.failures}}, outcome, nil, 0)
				if got[0].Verdict != test.want || got[0].Failures != test.failures+1 {
					t.Errorf("%s: %+v, want %s after %d failures", outcome, got[0], test.want, test.failures+1)
				}
			}
		})
	}
}

// TestSettleDelayIsClamped: a delay outside 0–24 h is brought inside and named, but only where it is used.
func TestSettleDelayIsClamped(t *testing.T) {
	tests := []struct {
		name    string
		asked   time.Duration
		want    time.Duration
		warning string
	}{
		{"lowest", 0, 0, ""},
		{"below", -time.Second, 0, "-1 seconds"},
		{"highest", 24 * time.Hour, 24 * time.Hour, ""},
		{"above", 24*time.Hour + time.Second, 24 * time.Hour, "86401 seconds"},
	}
	for _, test := range tests {
		for _, report := range []*Report{
			{Retried: retried(first, new(test.asked))},
			{RetryAll: true, RetryAllDelay: new(test.asked)},
		} {
			t.Run(fmt.Sprintf("%s/retryAll %v", test.name, report.RetryAll), func(t *testing.T) {
				got, warnings := Settle(consumer(), []Message{{Seq: 1, ID: first}}, OK, report, 0)
				if got[0].Delay != test.want {
					t.Errorf("delay %s, want %s", got[0].Delay, test.want)
				}
				if test.warning == "" {
					if warnings != nil {
						t.Errorf("warnings: %q", warnings)
					}
					return
				}
				if len(warnings) != 1 || !strings.Contains(warnings[0], test.warning) || !strings.Contains(warnings[0], first.String()) {
					t.Errorf("warnings %q name neither %s nor %s", warnings, test.warning, first)
				}
			})
		}
	}
	got, warnings := Settle(consumer(), []Message{{Seq: 1, ID: first, Failures: 3}}, OK,
		&Report{Retried: retried(first, new(-time.Second))}, 0)
	if got[0].Verdict != DeadLetter || got[0].Delay != 0 || warnings != nil {
		t.Errorf("a delay that is not used: %+v, warnings %q", got[0], warnings)
	}
}

// TestSettleErrored: a batch that could not run spends nothing and waits longer each time.
func TestSettleErrored(t *testing.T) {
	messages := []Message{{Seq: 1, Failures: 2, Losses: 1}, {Seq: 2, Failures: 3, Losses: 4}}
	for _, test := range []struct {
		inARow int
		delay  time.Duration
	}{{1, time.Second}, {2, 2 * time.Second}, {3, 4 * time.Second}, {7, time.Minute}, {1_000_000, time.Minute}} {
		got, warnings := Settle(consumer(), messages, Errored, nil, test.inARow)
		want := []Decision{
			{Seq: 1, Verdict: Retry, Delay: test.delay, Failures: 2, Losses: 1},
			{Seq: 2, Verdict: Retry, Delay: test.delay, Failures: 3, Losses: 4},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d in a row (-want +got):\n%s", test.inARow, diff)
		}
		if warnings != nil {
			t.Errorf("warnings: %q", warnings)
		}
	}
}

// TestPoisonIsFound follows a message that kills its process: two losses in company, three alone, then each loss is a
// failure until it is dead. Its neighbours, lost twice with it, spend nothing.
func TestPoisonIsFound(t *testing.T) {
	c := consumer()
	poison, neighbour := Message{Seq: 1, ID: first}, Message{Seq: 2, ID: second}
	step := func(m *Message, d Decision) {
		m.Failures, m.Losses = d.Failures, d.Losses
	}
	for range LossesBeforeAlone {
		if poison.Alone() {
			t.Fatalf("alone after %d losses", poison.Losses)
		}
		got, _ := Settle(c, []Message{poison, neighbour}, Lost, nil, 0)
		step(&poison, got[0])
		step(&neighbour, got[1])
	}
	if !poison.Alone() || !neighbour.Alone() {
		t.Fatalf("not alone after %d losses", poison.Losses)
	}
	got, _ := Settle(c, []Message{neighbour}, OK, nil, 0)
	if diff := cmp.Diff([]Decision{{Seq: 2, Verdict: Ack}}, got); diff != "" || neighbour.Failures != 0 {
		t.Errorf("the neighbour (-want +got):\n%s", diff)
	}

	var history []string
	for range 20 {
		got, _ = Settle(c, []Message{poison}, Lost, nil, 0)
		history = append(history, fmt.Sprintf("%s f%d l%d %s", got[0].Verdict, got[0].Failures, got[0].Losses, got[0].Delay))
		step(&poison, got[0])
		if got[0].Verdict != Retry {
			break
		}
	}
	want := []string{
		"retried f0 l3 400ms",
		"retried f0 l4 800ms",
		"retried f1 l5 10s",
		"retried f2 l6 20s",
		"retried f3 l7 40s",
		"dead f4 l8 0s",
	}
	if diff := cmp.Diff(want, history); diff != "" {
		t.Errorf("the poison's life alone (-want +got):\n%s", diff)
	}
}

func TestLossInCompanyNeverSpendsARetry(t *testing.T) {
	for losses := range 50 {
		got, _ := Settle(consumer(), []Message{{Seq: 1, Failures: 3, Losses: losses}, {Seq: 2}}, Lost, nil, 0)
		if got[0].Verdict != Retry || got[0].Failures != 3 || got[0].Losses != losses+1 {
			t.Errorf("after %d losses: %+v", losses, got[0])
		}
		if got[0].Delay <= 0 || got[0].Delay > 10*time.Second {
			t.Errorf("after %d losses: a wait of %s", losses, got[0].Delay)
		}
	}
}

// TestOtherEndsForgetLosses: what was delivered and not lost starts counting losses anew.
func TestOtherEndsForgetLosses(t *testing.T) {
	for _, outcome := range []Outcome{OK, Failed, TimedOut} {
		got, _ := Settle(consumer(), []Message{{Seq: 1, ID: first, Losses: 4}}, outcome, &Report{Retried: retried(first, nil)}, 0)
		if got[0].Verdict != Retry || got[0].Losses != 0 {
			t.Errorf("%s: %+v, want a retry with no losses", outcome, got[0])
		}
	}
}

func genDelay() *rapid.Generator[*time.Duration] {
	return rapid.OneOf(
		rapid.Just[*time.Duration](nil),
		rapid.Just(new(time.Duration(0))),
		rapid.Map(rapid.Int64Range(-100_000, 200_000), func(s int64) *time.Duration { return new(time.Duration(s) * time.Second) }),
	)
}

func genBatch(t *rapid.T) []Message {
	messages := make([]Message, rapid.IntRange(1, 12).Draw(t, "size"))
	for i := range messages {
		messages[i] = Message{
			Seq: int64(i + 1), ID: NewID(7, int64(i+1)),
			Failures: rapid.IntRange(0, 12).Draw(t, "failures"),
			Losses:   rapid.IntRange(0, 8).Draw(t, "losses"),
		}
	}
	return messages
}

func genReport(t *rapid.T, messages []Message) *Report {
	r := &Report{
		AckAll: rapid.Bool().Draw(t, "ackAll"), RetryAll: rapid.Bool().Draw(t, "retryAll"),
		RetryAllDelay: genDelay().Draw(t, "retryAllDelay"),
		Acked:         map[ID]struct{}{}, Retried: map[ID]*time.Duration{},
	}
	for i := range messages {
		if rapid.Bool().Draw(t, "acked") {
			r.Acked[messages[i].ID] = struct{}{}
		}
		if rapid.Bool().Draw(t, "retried") {
			r.Retried[messages[i].ID] = genDelay().Draw(t, "delay")
		}
	}
	return r
}

// TestSettleIsFair checks what must hold for every batch, however it ended: nothing is forgotten or invented, no
// message influences another, delays keep their bounds, and the verdict is the first rule that matches.
func TestSettleIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages := genBatch(t)
		outcome := rapid.SampledFrom([]Outcome{OK, Failed, TimedOut, Lost, Errored}).Draw(t, "outcome")
		report := genReport(t, messages)
		c := consumer()
		c.MaxRetries = rapid.IntRange(0, 10).Draw(t, "maxRetries")
		c.DeadLetterQueue = rapid.SampledFrom([]string{"", "dead"}).Draw(t, "deadLetterQueue")
		inARow := rapid.IntRange(1, 100).Draw(t, "errorsInARow")

		got, warnings := Settle(c, messages, outcome, report, inARow)
		if len(got) != len(messages) || len(warnings) > len(messages) {
			t.Fatalf("%d decisions and %d warnings for %d messages", len(got), len(warnings), len(messages))
		}
		for i := range messages {
			m, d := &messages[i], got[i]
			if d.Seq != m.Seq {
				t.Fatalf("decision %d is for message %d, want %d", i, d.Seq, m.Seq)
			}
			if d.Delay < 0 || d.Delay > MaxDelay {
				t.Fatalf("delay %s is outside 0–24 h", d.Delay)
			}
			if len(messages) > 1 && outcome != Lost {
				alone, _ := Settle(c, messages[i:i+1], outcome, report, inARow)
				if diff := cmp.Diff(alone[0], d); diff != "" {
					t.Fatalf("the batch around message %d changes its fate (-alone +batch):\n%s", m.Seq, diff)
				}
			}
			checkVerdict(t, c, m, outcome, report, d, len(messages))
		}
	})
}

// checkVerdict says the rule once more, as the product documents do.
func checkVerdict(t *rapid.T, c *Consumer, m *Message, outcome Outcome, r *Report, d Decision, size int) {
	_, ack := r.Acked[m.ID]
	_, retry := r.Retried[m.ID]
	var wantRetry, spends bool
	switch {
	case outcome == Errored:
		wantRetry, spends = true, false
	case outcome == Lost:
		wantRetry, spends = true, size == 1 && m.Losses >= 4
	case ack:
	case retry:
		wantRetry, spends = true, true
	case r.AckAll:
	case r.RetryAll, outcome != OK:
		wantRetry, spends = true, true
	}
	want := Ack
	switch {
	case !wantRetry:
	case !spends || m.Failures < c.MaxRetries:
		want = Retry
	case c.DeadLetterQueue != "":
		want = DeadLetter
	default:
		want = Drop
	}
	if d.Verdict != want {
		t.Fatalf("verdict %s, want %s", d.Verdict, want)
	}
	if want != Retry {
		return
	}
	failures := m.Failures
	if spends {
		failures++
	}
	if d.Failures != failures {
		t.Fatalf("%d failures, want %d", d.Failures, failures)
	}
}

// TestEveryMessageLeaves: whatever the handler does, a message that is never acked has left the queue after
// MaxRetries+1 spent deliveries.
func TestEveryMessageLeaves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := consumer()
		c.MaxRetries = rapid.IntRange(0, 100).Draw(t, "maxRetries")
		m := Message{Seq: 1, ID: first}
		for delivery := 1; ; delivery++ {
			if m.Attempts() != delivery {
				t.Fatalf("attempts %d at delivery %d", m.Attempts(), delivery)
			}
			outcome := rapid.SampledFrom([]Outcome{Failed, TimedOut}).Draw(t, "outcome")
			got, _ := Settle(c, []Message{m}, outcome, nil, 0)
			if got[0].Verdict == DeadLetter {
				if delivery != c.MaxRetries+1 {
					t.Fatalf("dead after delivery %d with %d retries", delivery, c.MaxRetries)
				}
				return
			}
			if delivery > c.MaxRetries {
				t.Fatalf("delivery %d of %d retries ended as %s", delivery, c.MaxRetries, got[0].Verdict)
			}
			m.Failures, m.Losses = got[0].Failures, got[0].Losses
		}
	})
}

// TestASuspectIsAloneUntilTheWatchdogHasSpoken: a suspect that is let in beside one that keeps its process busy for ever
// would be lost with it, alone in its batch, and be blamed.
func TestASuspectIsAloneUntilTheWatchdogHasSpoken(t *testing.T) {
	if found := PingEvery + PingMisses*PingTime; found+5*time.Second > AloneTime {
		t.Errorf("a stuck process is found after %s, and a suspect is alone for %s", found, AloneTime)
	}
}
