package tail

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/engine/tail"
)

func TestFilters(t *testing.T) {
	request := &tail.Invocation{
		Version: "v1", Outcome: "ok", Event: json.RawMessage(`{"request":{"method":"POST","headers":{"x-a":"some b"}}}`), Logs: []tail.Log{{Text: "order 7"}},
	}
	batch := &tail.Invocation{Version: "v2", Outcome: "exception", Event: json.RawMessage(`{"queue":"jobs"}`), Exceptions: []tail.Exception{{Name: "TypeError", Message: "boom"}}}
	lost := &tail.Invocation{Outcome: "loadShed", Event: json.RawMessage(`null`)}
	for filters, want := range map[string]string{
		`[]`:                   "request batch lost",
		`[{}]`:                 "request batch lost",
		`[{"outcome":["ok"]}]`: "request",
		`[{"outcome":["exception","exceededCpu","exceededMemory","unknown"]}]`: "batch lost",
		`[{"method":["get","post"]}]`:                                          "request",
		`[{"method":["GET"]}]`:                                                 "",
		`[{"header":{"key":"X-A"}}]`:                                           "request",
		`[{"header":{"key":"X-A","query":"b"}}]`:                               "request",
		`[{"header":{"key":"X-A","query":"c"}}]`:                               "",
		`[{"query":"order"}]`:                                                  "request",
		`[{"query":"TypeError: boom"}]`:                                        "batch",
		`[{"scriptVersion":"v2"}]`:                                             "batch",
		`[{"scriptVersion":"v2"},{"outcome":["ok"]}]`:                          "",
		`[{"sampling_rate":1}]`:                                                "request batch lost",
		`[{"sampling_rate":1e-300}]`:                                           "",
	} {
		var given []json.RawMessage
		if err := json.Unmarshal([]byte(filters), &given); err != nil {
			t.Fatal(err)
		}
		wants, err := parse(given)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for name, i := range map[string]*tail.Invocation{"request": request, "batch": batch, "lost": lost} {
			if wants(i) {
				got = append(got, name)
			}
		}
		for name := range strings.FieldsSeq(want) {
			if !strings.Contains(strings.Join(got, " "), name) {
				t.Errorf("%s leaves %s out", filters, name)
			}
		}
		if len(got) != len(strings.Fields(want)) {
			t.Errorf("%s lets %v through, not %s", filters, got, want)
		}
	}
	for text, want := range map[string]string{
		`{"client_ip":["self"]}`: "celld does not keep it",
		`{"cpu":1}`:              "is no filter of a tail here",
		`7`:                      "is no filter of a tail here",
		`{"sampling_rate":0}`:    "above 0 and at most 1",
		`{"sampling_rate":1.5}`:  "above 0 and at most 1",
		`{"outcome":"ok"}`:       "is no filter of a tail here",
	} {
		if _, err := parse([]json.RawMessage{json.RawMessage(text)}); err == nil || !strings.Contains(fault.From(err).Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := parse(make([]json.RawMessage, 21)); err == nil {
		t.Error("21 filters are taken")
	}
}

func TestLeft(t *testing.T) {
	text, err := json.Marshal(left("shop", 7))
	if err != nil || !strings.Contains(string(text), `"type":"overload"`) || !strings.Contains(string(text), "7 invocations of shop were left out") ||
		!strings.Contains(string(text), `"exceptions":[],"logs":[]`) {
		t.Errorf("%s %v", text, err)
	}
}
