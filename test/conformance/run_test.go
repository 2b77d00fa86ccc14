package conformance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/runlot/runlot/internal/core/queue"
)

// run is one case under way.
type run struct {
	testing.TB
	house *house
	node  *node
	c     *testCase
	o     *observation
}

// body is a message of the plan fixture: do[n] is what its handler does at delivery n+1.
type body struct {
	N  string   `json:"n"`
	Do []string `json:"do,omitempty"`
}

type object = map[string]any

// call is a call of a producer: binding, method, arguments.
type call []any

// binding is the name in env under which the plan fixture sends to a queue.
func binding(queueName string) string {
	return strings.ToUpper(strings.ReplaceAll(queueName, "-", "_"))
}

// send is a call that sends one message to a queue of the plan fixture.
func send(queueName string, b any, options ...any) call {
	return append(call{binding(queueName), "send", b}, options...)
}

// sendBatch is a call that sends several together.
func sendBatch(queueName string, bodies ...body) call {
	list := make([]object, len(bodies))
	for i, b := range bodies {
		list[i] = object{"body": b}
	}
	return call{binding(queueName), "sendBatch", list}
}

// post requests a path of the case's app and returns the answer's body.
func (r *run) post(path string, request any) []byte {
	r.Helper()
	text, err := json.Marshal(request)
	if err != nil {
		r.Fatal(err)
	}
	client := http.Client{Timeout: 2 * patience}
	response, err := client.Post(r.node.url(r.c.app)+path, "application/json", bytes.NewReader(text))
	if err != nil {
		r.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		r.Fatalf("POST %s to %s: %s %s, error %v; %s", path, r.c.app, response.Status, answer, err, r.node.ended(r.c.app))
	}
	return answer
}

// calls makes producer calls and keeps their answers.
func (r *run) calls(list ...call) []answer {
	r.Helper()
	return r.keep(r.post("/", list))
}

func (r *run) keep(text []byte) []answer {
	r.Helper()
	var answers []answer
	if err := json.Unmarshal(text, &answers); err != nil {
		r.Fatalf("%s: %v", text, err)
	}
	r.o.Answers = append(r.o.Answers, answers...)
	return answers
}

// accept makes producer calls that have to succeed.
func (r *run) accept(list ...call) {
	r.Helper()
	for i, a := range r.calls(list...) {
		if a.Error != nil {
			r.Fatalf("call %d is refused: %s", i, &a)
		}
	}
}

// until waits for a condition over what the daemon has told.
func (r *run) until(what string, holds func() bool) {
	r.Helper()
	r.within(patience, what, holds)
}

func (r *run) within(bound time.Duration, what string, holds func() bool) {
	r.Helper()
	deadline := time.After(bound)
	for {
		changed := r.node.changes()
		if holds() {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			r.observe()
			r.Fatalf("%s did not happen in %s; observed so far:\n%s", what, bound, r.o)
		}
	}
}

// batches waits for a number of batches of the case's queues.
func (r *run) batches(count int) []batch {
	r.Helper()
	r.until(fmt.Sprintf("batch %d", count), func() bool { return len(r.node.batches(r.c.queues...)) >= count })
	return r.node.batches(r.c.queues...)
}

// arrives waits for a number of calls at the gate.
func (r *run) arrives(name string, count int) {
	r.Helper()
	r.arrivesWithin(patience, name, count)
}

func (r *run) arrivesWithin(bound time.Duration, name string, count int) {
	r.Helper()
	timer := time.NewTimer(bound)
	defer timer.Stop()
	end := make(chan struct{})
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		defer close(end)
		select {
		case <-timer.C:
		case <-stop:
		}
	}()
	if !r.house.gate.await(func() bool { return r.house.gate.arrived[name] >= count }, end) {
		r.Fatalf("%d calls of %s at the gate, %d wanted", r.house.gate.arrivals(name), name, count)
	}
}

// fact keeps something that only this case looks at.
func (r *run) fact(name string, value any) {
	if r.o.Facts == nil {
		r.o.Facts = map[string]string{}
	}
	r.o.Facts[name] = fmt.Sprint(value)
}

// observe takes down what the case's queues have come to. A batch that came after the last wait is in it too.
func (r *run) observe() {
	r.o.Batches = r.node.joined(r.c.queues, r.c.unlogged)
	if r.o.Outside = r.node.outside; !r.o.Outside && !r.c.production && len(r.c.queues) > 0 {
		r.o.Left = r.left()
	}
}

// database is where the case's queues are.
func (r *run) database() *pgxpool.Pool {
	r.Helper()
	if own := r.house.databases[r.c.app]; own != nil {
		return own
	}
	if r.house.databases["default"] == nil {
		r.Fatal("there is no database to look at")
	}
	return r.house.databases["default"]
}

// left reads what the database holds of the case's queues.
func (r *run) left() []row {
	r.Helper()
	rows, err := r.database().Query(r.Context(), `SELECT queue, coalesce(id, ''), state, attempts, sent_at, visible_at, body
		FROM runlot_queue.messages WHERE queue = ANY($1) ORDER BY sent_at, id`, r.c.queues)
	if err != nil {
		r.Fatal(err)
	}
	defer rows.Close()
	var list []row
	for rows.Next() {
		var line row
		var text json.RawMessage
		if err := rows.Scan(&line.Queue, &line.ID, &line.State, &line.Attempts, &line.SentAt, &line.VisibleAt, &text); err != nil {
			r.Fatal(err)
		}
		line.Name = (&message{Body: text}).name()
		list = append(list, line)
	}
	if err := rows.Err(); err != nil {
		r.Fatal(err)
	}
	slices.SortStableFunc(list, func(a, b row) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// exec runs a statement in the case's database.
func (r *run) exec(statement string, args ...any) {
	r.Helper()
	if _, err := r.database().Exec(r.Context(), statement, args...); err != nil {
		r.Fatal(err)
	}
}

// planned is a case of the plan fixture that sends one batch of messages and is judged by its whole course.
func planned(id, rule, source string, bodies []body, want []string, wrongs ...wrong) testCase {
	c := testCase{id: id, rule: rule, source: source, app: "plan", queues: []string{id}, wrong: wrongs}
	batches := 0
	for _, line := range want {
		if strings.Contains(line, "→") {
			batches++
		}
	}
	c.drive = func(r *run) {
		r.accept(sendBatch(id, bodies...))
		r.batches(batches)
	}
	c.check = func(o *observation) error { return wantTrace(o, &c, want) }
	return c
}

// wantTrace compares the course of a case.
func wantTrace(o *observation, c *testCase, want []string) error {
	if o.Outside {
		want = visible(want)
	}
	if diff := cmp.Diff(want, o.trace(c)); diff != "" {
		return fmt.Errorf("course (-want +got):\n%s", diff)
	}
	return nil
}

var outcomeWord = regexp.MustCompile(`(^|: )(ok|failed|timeout|lost|error) `)

// visible is the part of a course that handlers see: which messages came together, and which attempt each was.
func visible(course []string) []string {
	lines := make([]string, 0, len(course))
	for _, line := range course {
		if seen, _, batch := strings.Cut(line, " →"); batch {
			lines = append(lines, outcomeWord.ReplaceAllString(seen, "$1"))
		}
	}
	return lines
}

// Wrong behaviours that many cases reject.

// again delivers messages once more after the last batch.
func again(name string, messages ...string) wrong {
	return wrong{name, func(o *observation) {
		last := o.Batches[len(o.Batches)-1]
		last.Outcome, last.Messages, last.Retried, last.Redelivered, last.Dead, last.Dropped = "ok", nil, 0, 0, 0, 0
		last.Delivered, last.Acked = len(messages), len(messages)
		for _, m := range messages {
			seen := o.seen(m)
			next := seen[len(seen)-1]
			next.Attempts++
			last.Messages = append(last.Messages, next)
		}
		o.Batches = append(o.Batches, last)
	}}
}

// ends changes the outcome of the first batch.
func ends(name, outcome string) wrong {
	return wrong{name, func(o *observation) { o.Batches[0].Outcome = queue.Outcome(outcome) }}
}

// cut ends the course after a number of batches: what is left of it is lost.
func cut(name string, batches int) wrong {
	return wrong{name, func(o *observation) { o.Batches = o.Batches[:batches] }}
}

// attempt changes the attempt of every message of one batch.
func attempt(name string, batch, attempts int) wrong {
	return wrong{name, func(o *observation) {
		for i := range o.Batches[batch].Messages {
			o.Batches[batch].Messages[i].Attempts = attempts
		}
	}}
}

// waits changes when a message that is left becomes visible.
func waits(name, messageName string, delay time.Duration) wrong {
	return wrong{name, func(o *observation) {
		for i := range o.Left {
			if o.Left[i].Name == messageName {
				o.Left[i].VisibleAt = o.Batches[len(o.Batches)-1].end().Add(delay)
			}
		}
	}}
}

// gone takes a message away that is left.
func gone(name, messageName string) wrong {
	return wrong{name, func(o *observation) {
		o.Left = slices.DeleteFunc(o.Left, func(r row) bool { return r.Name == messageName })
	}}
}

// changes is any other wrong behaviour.
func changes(name string, apply func(o *observation)) wrong { return wrong{name, apply} }
