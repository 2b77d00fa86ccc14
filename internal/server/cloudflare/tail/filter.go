package tail

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/tail"
)

// filter is one of a tail, of which one field is set.
type filter struct {
	Sampling *float64 `json:"sampling_rate"`
	Outcome  []string `json:"outcome"`
	Method   []string `json:"method"`
	Header   *struct {
		Key   string `json:"key"`
		Query string `json:"query"`
	} `json:"header"`
	Query   string          `json:"query"`
	Version string          `json:"scriptVersion"`
	Client  json.RawMessage `json:"client_ip"`
}

// request is that of an invocation, if it was for one.
type request struct {
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
}

// parse reads filters and returns what lets those invocations through that pass all of them.
func parse(given []json.RawMessage) (func(*tail.Invocation) bool, error) {
	if len(given) > queue.MaxTailFilters {
		return nil, fault.New(fault.Limit, "tail_filters", "a tail has at most %d filters", queue.MaxTailFilters)
	}
	filters := make([]filter, len(given))
	for i, text := range given {
		known := json.NewDecoder(strings.NewReader(string(text)))
		known.DisallowUnknownFields()
		f := &filters[i]
		if err := known.Decode(f); err != nil {
			return nil, fault.New(fault.Invalid, "tail_filter", "%s is no filter of a tail here", text).
				WithHint("there are sampling_rate, outcome, method, header, query and scriptVersion").WithCause(err)
		}
		switch {
		case f.Client != nil:
			return nil, fault.New(fault.Invalid, "tail_filter", "a tail cannot choose by the address of clients (client_ip): celld does not keep it").
				WithHint("leave --ip out; a proxy in front of celld may set a header, which --header chooses by")
		case f.Sampling != nil && (*f.Sampling <= 0 || *f.Sampling > 1):
			return nil, fault.New(fault.Invalid, "tail_filter", "a sampling rate is above 0 and at most 1; this is %g", *f.Sampling)
		}
	}
	return func(i *tail.Invocation) bool {
		return !slices.ContainsFunc(filters, func(f filter) bool { return !f.matches(i) })
	}, nil
}

func (f *filter) matches(i *tail.Invocation) bool {
	switch {
	case f.Sampling != nil:
		return rand.Float64() < *f.Sampling //nolint:gosec // a share of the events, and no secret
	case f.Outcome != nil:
		return slices.Contains(f.Outcome, outcome(i.Outcome))
	case f.Method != nil:
		r := requestOf(i)
		return r != nil && slices.ContainsFunc(f.Method, func(m string) bool { return strings.EqualFold(m, r.Method) })
	case f.Header != nil:
		r := requestOf(i)
		if r == nil {
			return false
		}
		for key, value := range r.Headers {
			if strings.EqualFold(key, f.Header.Key) && strings.Contains(value, f.Header.Query) {
				return true
			}
		}
		return false
	case f.Version != "":
		return i.Version == f.Version
	case f.Query != "":
		return slices.ContainsFunc(i.Logs, func(l tail.Log) bool { return strings.Contains(l.Text, f.Query) }) ||
			slices.ContainsFunc(i.Exceptions, func(e tail.Exception) bool { return strings.Contains(e.Name+": "+e.Message, f.Query) })
	}
	return true
}

// requestOf is the request that an invocation was for, nil for any other.
func requestOf(i *tail.Invocation) *request {
	var event struct {
		Request *request `json:"request"`
	}
	if json.Unmarshal(i.Event, &event) != nil {
		return nil
	}
	return event.Request
}

// outcomes are those that clients know.
var outcomes = []string{"ok", "exception", "exceededCpu", "exceededMemory", "canceled", "responseStreamDisconnected", "scriptNotFound"}

func outcome(of string) string {
	if slices.Contains(outcomes, of) {
		return of
	}
	return "unknown"
}
