package api

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/broker/operate"
	"github.com/runlot/runlot/internal/engine/deploy"
)

// cloudflarePrefix begins the paths with Cloudflare's shapes.
const cloudflarePrefix = "/client/v4"

// failed is an error as it goes over the wire.
type failed struct {
	said       client.Error
	cloudflare bool
}

// Error implements error.
func (f *failed) Error() string { return f.said.Error() }

// GetStatus implements huma.StatusError.
func (f *failed) GetStatus() int { return f.said.Status }

// MarshalJSON implements json.Marshaler.
func (f *failed) MarshalJSON() ([]byte, error) {
	if !f.cloudflare {
		return json.Marshal(map[string]any{"error": &f.said})
	}
	return json.Marshal(map[string]any{
		"success": false, "messages": []string{}, "result": nil,
		"errors": []map[string]any{{"code": cloudflareCode(&f.said), "message": f.Error()}},
	})
}

// Codes that Cloudflare has for what happens here too.
var cloudflareCodes = map[string]int{
	access.CodeUnauthenticated: 10000,
	access.CodeForbidden:       10000,
	deploy.CodeAppUnknown:      10007,
	deploy.CodeVersionUnknown:  10007,
	"path_unknown":             7003,
	"queue_unknown":            10104,
}

// cloudflareCode is the number for an error: Cloudflare's own, or 10001 for what it has none for.
func cloudflareCode(e *client.Error) int {
	if n, err := strconv.Atoi(e.Code); err == nil {
		return n
	}
	if n, ok := cloudflareCodes[e.Code]; ok {
		return n
	}
	return 10001
}

// failure turns what a handler returned into an answer.
func failure(err error, cloudflare bool) *failed {
	f := fault.From(err)
	return &failed{client.Error{Status: statusOf(f, cloudflare), Code: f.Code, Message: f.Message, Hint: f.Hint}, cloudflare}
}

func statusOf(f *fault.Error, cloudflare bool) int {
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
		if cloudflare {
			return http.StatusBadRequest // Cloudflare's clients repeat a call that is answered with 409
		}
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

// writeFault answers outside of an operation.
func writeFault(w http.ResponseWriter, r *http.Request, err error) {
	f := failure(err, strings.HasPrefix(r.URL.Path, cloudflarePrefix))
	text, err := json.Marshal(f)
	if err != nil {
		text = []byte(`{"error":{"code":"internal","message":"internal error"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.said.Status)
	_, _ = w.Write(text)
}

// shapeErrors gives what huma finds wrong with a request the shape of every other error. huma has one such setting for the
// whole program.
var shapeErrors = sync.OnceFunc(func() {
	huma.NewErrorWithContext = func(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
		return invalid(status, message, ctx != nil && strings.HasPrefix(ctx.URL().Path, cloudflarePrefix), errs)
	}
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		return invalid(status, message, false, errs)
	}
})

// mostReasons bounds the reasons that are named of one request.
const mostReasons = 5

func invalid(status int, message string, cloudflare bool, errs []error) *failed {
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
	return &failed{client.Error{Status: status, Code: code, Message: message, Hint: "GET /v1/openapi.json describes what the call takes"}, cloudflare}
}
