package wire

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/engine/subscribe"
)

// Codes of faults that have a code of Cloudflare's by being one.
const (
	// CodeQueueName: no name of a queue. CodeQueueExists: there is one of the name.
	CodeQueueName   = "11003"
	CodeQueueExists = "11009"
	// CodeConsumerExists: a queue has a consumer already.
	CodeConsumerExists = "11004"
	// CodeConsumerSettings and CodeQueueSettings: settings that are outside their range.
	CodeConsumerSettings = "100127"
	CodeQueueSettings    = "100128"
	// CodePaused: nothing is pulled from a queue that is paused.
	CodePaused = "queue_delivery_paused"
	// CodeService is the code of the fault that a script is unknown, where clients ask for it as a service.
	CodeService = "service_unknown"
	// CodeD1: SQL that failed, or a database that cannot be. CodeD1Exists: there is one of the name. CodeD1Unknown: there is none.
	CodeD1        = "7500"
	CodeD1Exists  = "7502"
	CodeD1Unknown = "7404"
	// CodeKVUnknown: there is no KV namespace of the id. CodeKVExists: there is one of the title. CodeKVKey: it has no such key.
	CodeKVUnknown = "10013"
	CodeKVExists  = "10014"
	CodeKVKey     = "10009"
	// CodeR2Unknown: there is no R2 bucket of the name. CodeR2Exists: there is one. CodeR2Name: there can be none.
	CodeR2Unknown = "10006"
	CodeR2Exists  = "10004"
	CodeR2Name    = "10005"
)

// Codes of Cloudflare.
const (
	codeAuthentication = 10000
	codeOther          = 10001
	codeUnknownPath    = 7003
	codeStart          = 10021 // code that does not start
	codeInUse          = 10064 // a script that is in use; of a queue it is nowhere written what Cloudflare says
)

// numbers are the codes of Cloudflare for faults whose code is none.
var numbers = map[string]int{
	access.CodeUnauthenticated: codeAuthentication, access.CodeForbidden: codeAuthentication,
	deploy.CodeAppUnknown: 10007, deploy.CodeVersionUnknown: 10007, deploy.CodeSecretUnknown: 10007, subscribe.CodeUnknown: 10007, CodeService: 10090,
	"worker_threw": codeStart, "worker_syntax": codeStart, "worker_module": codeStart, "worker_handler": codeStart, "worker_await": codeStart,
	queue.CodeStorageFull: 10251, queue.CodeOperationsCap: 10253, CodePaused: 10252, "queue_handler_missing": 11001, "consumer_exists": 11004,
	"queue_used": codeInUse, "queue_fed": codeInUse, "queue_busy": codeInUse,
}

// problem is an error in an envelope.
type problem struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// envelope is around every answer.
type envelope struct {
	Success  bool      `json:"success"`
	Errors   []problem `json:"errors"`
	Messages []string  `json:"messages"`
	Result   any       `json:"result"`
	Info     any       `json:"result_info,omitempty"`
}

// info is the place of a page in its list.
type info struct {
	Page       int `json:"page"`
	PerPage    int `json:"per_page"`
	Count      int `json:"count"`
	TotalCount int `json:"total_count"`
	TotalPages int `json:"total_pages"`
}

// Answer answers with a result.
func Answer(w http.ResponseWriter, result any) { answer(w, http.StatusOK, result, nil) }

func answer(w http.ResponseWriter, status int, result any, p *problem) {
	e := envelope{Success: p == nil, Errors: []problem{}, Messages: []string{}, Result: result}
	if p != nil {
		e.Errors = append(e.Errors, *p)
	}
	send(w, status, &e)
}

func send(w http.ResponseWriter, status int, e *envelope) {
	text, err := json.Marshal(e)
	if err != nil {
		panic("cloudflare: an envelope always marshals: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// List answers with a page of a whole list; without a size of pages, all of it is the first. Some clients ask for the next
// page until one is empty.
func List[T any](w http.ResponseWriter, c *Call, all []T) {
	page, perPage := number(c.Request, "page", 1), number(c.Request, "per_page", max(len(all), 1))
	total := len(all)
	from := min((page-1)*perPage, total)
	part := all[from:min(from+perPage, total)]
	if part == nil {
		part = []T{}
	}
	send(w, http.StatusOK, &envelope{
		Success: true, Errors: []problem{}, Messages: []string{}, Result: part,
		Info: &info{Page: page, PerPage: perPage, Count: len(part), TotalCount: total, TotalPages: (total + perPage - 1) / perPage},
	})
}

// Plain answers with JSON that has no envelope.
func Plain(w http.ResponseWriter, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // who went away misses only what it asked for
	return nil
}

// After is the place in its list of a stretch that was asked for by a cursor.
type After struct {
	// Count is how many there are in it.
	Count int `json:"count"`
	// Cursor asks for what follows; "" when nothing does.
	Cursor string `json:"cursor"`
}

// Stretch answers with a stretch of a list; place is an After, or more of the same.
func Stretch(w http.ResponseWriter, result, place any) {
	send(w, http.StatusOK, &envelope{Success: true, Errors: []problem{}, Messages: []string{}, Result: result, Info: place})
}

// number reads a query parameter that counts from 1.
func number(r *http.Request, name string, otherwise int) int {
	n, err := strconv.Atoi(r.URL.Query().Get(name))
	if err != nil || n < 1 || n > queue.MaxPage {
		return otherwise
	}
	return n
}

// fail answers with an error. Its status decides in some clients whether they try again: a conflict is no reason to.
func (r *Router) fail(w http.ResponseWriter, q *http.Request, err error) {
	f := fault.From(err)
	code, ok := numbers[f.Code]
	if !ok {
		if code, err = strconv.Atoi(f.Code); err != nil {
			code = codeOther
		}
	}
	if f.Kind == fault.Internal {
		r.o.Log.Error("a call failed", "method", q.Method, "path", q.URL.Path, "error", fault.Detail(f))
	}
	answer(w, statusOf(f), nil, &problem{code, f.Error()})
}

func statusOf(f *fault.Error) int {
	switch f.Code {
	case access.CodeUnauthenticated:
		return http.StatusUnauthorized
	case access.CodeForbidden:
		return http.StatusForbidden
	case queue.CodeOverloaded, queue.CodeStorageFull, queue.CodeOperationsCap:
		return http.StatusTooManyRequests
	case CodePaused:
		return http.StatusConflict
	}
	switch f.Kind {
	case fault.Invalid, fault.Conflict, fault.Limit:
		return http.StatusBadRequest
	case fault.NotFound:
		return http.StatusNotFound
	case fault.Unavailable, fault.Timeout:
		return http.StatusServiceUnavailable
	case fault.Environment, fault.Internal:
	}
	return http.StatusInternalServerError
}
