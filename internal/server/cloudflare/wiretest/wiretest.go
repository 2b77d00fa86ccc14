// Package wiretest serves calls of Cloudflare's API in tests, without a database.
package wiretest

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// World is a router with tokens of its own, and a list of what was recorded.
type World struct {
	*wire.Router

	t      *testing.T
	keeper *access.Keeper

	mu     sync.Mutex
	events []string // guarded by mu
}

// New returns a router without calls.
func New(t *testing.T) *World {
	t.Helper()
	keeper := access.New(&tokens{})
	return &World{Router: wire.NewRouter(wire.Options{Access: keeper, Account: "local", Log: slog.New(slog.DiscardHandler)}), t: t, keeper: keeper}
}

// Token makes a token; appName is "" for the whole instance.
func (w *World) Token(role access.Role, appName string) string {
	w.t.Helper()
	text, _, err := w.keeper.Create(w.t.Context(), "ann", role, appName, time.Time{})
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

// AddEvent is how what was done is recorded: its kind and its name.
func (w *World) AddEvent(_ context.Context, e *deploy.Event, _ int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e.Kind+" "+e.Detail["name"])
	return nil
}

// Events are those that were recorded.
func (w *World) Events() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

// Reply is an answer.
type Reply struct {
	Status int
	Header http.Header
	// Raw is the whole of it. The others are read from that, where it is an envelope.
	Raw    string
	Result string
	// Code is that of the first error, and Message its text.
	Code    int
	Message string
	// Info is the place in a list, as it stands.
	Info string
}

// Call makes a call below the one account. head are pairs of names and values of headers.
func (w *World) Call(method, path, token, body string, head ...string) Reply {
	w.t.Helper()
	return w.Send(method, path, token, strings.NewReader(body), head...)
}

// Send is Call with a body that is read.
func (w *World) Send(method, path, token string, body io.Reader, head ...string) Reply {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), method, wire.Prefix+"/accounts/local"+path, body)
	r.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(head); i += 2 {
		r.Header.Set(head[i], head[i+1])
	}
	recorder := httptest.NewRecorder()
	w.ServeHTTP(recorder, r)
	reply := Reply{Status: recorder.Code, Header: recorder.Header(), Raw: recorder.Body.String()}
	var e struct {
		Result json.RawMessage
		Errors []struct {
			Code    int
			Message string
		}
		Info json.RawMessage `json:"result_info"`
	}
	if json.Unmarshal(recorder.Body.Bytes(), &e) == nil {
		reply.Result, reply.Info = string(e.Result), string(e.Info)
		if len(e.Errors) > 0 {
			reply.Code, reply.Message = e.Errors[0].Code, e.Errors[0].Message
		}
	}
	return reply
}

// tokens keeps tokens in memory.
type tokens struct {
	mu  sync.Mutex
	all []access.Token
}

// AddToken implements access.Store.
func (s *tokens) AddToken(_ context.Context, t *access.Token) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, *t)
	return nil
}

// Token implements access.Store.
func (s *tokens) Token(_ context.Context, id string) (*access.Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.all {
		if s.all[i].ID == id {
			t := s.all[i]
			return &t, nil
		}
	}
	return nil, fault.New(fault.NotFound, access.CodeTokenUnknown, "there is no token %s", id)
}

// Tokens implements access.Store.
func (s *tokens) Tokens(context.Context) ([]access.Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all), nil
}

// DeleteToken implements access.Store.
func (s *tokens) DeleteToken(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(t access.Token) bool { return t.ID == id })
	return nil
}

// UseToken implements access.Store.
func (s *tokens) UseToken(context.Context, string, time.Time) error { return nil }
