package endpoint

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/d1"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/broker/operate"
)

// wireError is an error as it goes over the wire.
type wireError struct{ said client.Error }

// Error implements error.
func (f *wireError) Error() string { return f.said.Error() }

// GetStatus implements huma.StatusError.
func (f *wireError) GetStatus() int { return f.said.Status }

// MarshalJSON implements json.Marshaler.
func (f *wireError) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"error": &f.said})
}

// Failure is how an error goes over the wire.
func Failure(err error) *client.Error { return &failure(err).said }

// failure turns what a handler returned into an answer.
func failure(err error) *wireError {
	f := fault.From(err)
	said := client.Error{Status: statusOf(f), Code: f.Code, Message: f.Message, Hint: f.Hint}
	if e, ok := errors.AsType[*d1.Error](err); ok && e.Query >= 0 {
		said.Statement = &e.Query
	}
	return &wireError{said}
}

func statusOf(f *fault.Error) int {
	switch f.Kind {
	case fault.Invalid:
		switch f.Code {
		case access.CodeUnauthenticated:
			return http.StatusUnauthorized
		case access.CodeForbidden, operate.CodeTargetForbidden:
			return http.StatusForbidden
		}
		return http.StatusBadRequest
	case fault.NotFound:
		return http.StatusNotFound
	case fault.Conflict:
		return http.StatusConflict
	case fault.Limit:
		if f.Code == queue.CodeOverloaded {
			return http.StatusTooManyRequests
		}
		return http.StatusUnprocessableEntity
	case fault.Unavailable:
		return http.StatusServiceUnavailable
	case fault.Timeout:
		return http.StatusGatewayTimeout
	case fault.Environment, fault.Internal:
	}
	return http.StatusInternalServerError
}

// WriteFault answers outside of an operation.
func WriteFault(w http.ResponseWriter, err error) {
	f := failure(err)
	text, err := json.Marshal(f)
	if err != nil {
		text = []byte(`{"error":{"code":"internal","message":"internal error"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.said.Status)
	_, _ = w.Write(text)
}

// ShapeErrors gives what huma finds wrong with a request the shape of every other error. huma has one such setting for the
// whole program.
var ShapeErrors = sync.OnceFunc(func() {
	huma.NewErrorWithContext = func(_ huma.Context, status int, message string, errs ...error) huma.StatusError {
		return invalid(status, message, errs)
	}
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		return invalid(status, message, errs)
	}
})

// mostReasons bounds the reasons that are named of one request.
const mostReasons = 5

func invalid(status int, message string, errs []error) *wireError {
	var reasons []string
	for _, err := range errs {
		d, ok := err.(huma.ErrorDetailer)
		if !ok || len(reasons) >= mostReasons {
			continue
		}
		detail := d.ErrorDetail()
		reason := detail.Message
		if detail.Location != "" {
			reason = detail.Location + ": " + reason
		}
		reasons = append(reasons, reason)
	}
	if len(reasons) > 0 {
		message = strings.Join(reasons, "; ")
	}
	code := "request_invalid"
	if status >= http.StatusInternalServerError {
		code = "internal"
	}
	return &wireError{client.Error{Status: status, Code: code, Message: message, Hint: "GET /v1/openapi.json describes what the call takes"}}
}
