// Package desk lets the commands about queues and crons reach the program that runs a project in the foreground: it serves the API
// without versions on a port of this machine, and leaves its address and a token in the state folder.
package desk

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	memory "github.com/runlot/runlot/internal/adapter/memory/operations"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/bulk"
	"github.com/runlot/runlot/internal/daemon/d1"
	"github.com/runlot/runlot/internal/daemon/removals"
	"github.com/runlot/runlot/internal/daemon/state"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/operations"
	"github.com/runlot/runlot/internal/server/api"
	"github.com/runlot/runlot/internal/server/api/crons"
	"github.com/runlot/runlot/internal/server/api/reach"
)

// fileName is the file among those of what runs in a state folder; its owner alone can read it.
const fileName = "api.json"

// Door is what the file holds.
type Door struct {
	Server string `json:"server"`
	Token  string `json:"token"`
}

// Read finds the door of a program that uses a state folder; false when none answers there.
func Read(ctx context.Context, folder string) (Door, bool) {
	var d Door
	text, err := os.ReadFile(filepath.Join(state.RunDir(folder), fileName))
	if err != nil || json.Unmarshal(text, &d) != nil {
		return d, false
	}
	// A killed program leaves its file.
	var dialer net.Dialer
	ctx, cancel := context.WithTimeout(ctx, queue.SendTimeout)
	defer cancel()
	conn, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(d.Server, "http://"))
	if err != nil {
		return d, false
	}
	_ = conn.Close()
	return d, true
}

// Desk is the API while it is served.
type Desk struct {
	server     *http.Server
	background *operations.Engine
	file       string
	served     sync.WaitGroup
}

// Instance is what a program runs.
type Instance interface {
	reach.Queues
	removals.Node
	crons.Instance
	D1() *d1.Databases
}

// Open serves the queues and crons of a program that uses a state folder. The caller closes it before they end.
func Open(ctx context.Context, folder string, instance Instance, log *slog.Logger) (*Desk, error) {
	keeper := access.New(&tokens{byID: map[string]access.Token{}})
	token, _, err := keeper.Create(ctx, "this machine", access.Admin, "", time.Time{})
	if err != nil {
		return nil, err
	}
	background, err := bulk.Start(ctx, &memory.Store{}, instance, nil, log)
	if err != nil {
		return nil, err
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fault.New(fault.Environment, "cannot_listen", "no port of this machine is free for the commands about queues").WithCause(err)
	}
	door := Door{Server: "http://" + listener.Addr().String(), Token: token}
	d := &Desk{background: background, file: filepath.Join(state.RunDir(folder), fileName), server: &http.Server{
		Handler:           api.New(api.Options{Access: keeper, Queues: instance, Remover: &removals.Remover{Node: instance, Operations: background}, Crons: instance, D1: instance.D1(), Operations: background, Version: "development", Account: "local", Log: log}),
		ReadHeaderTimeout: queue.SendTimeout, ReadTimeout: queue.APIBodyTime, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}}
	text, err := json.Marshal(door)
	if err == nil {
		err = write(d.file, text)
	}
	if err != nil {
		_ = listener.Close()
		return nil, fault.New(fault.Environment, "state_unusable", "the address for the commands about queues cannot be written to %s", d.file).WithCause(err)
	}
	d.served.Go(func() {
		if err := d.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the API is not served any more", "error", err)
		}
	})
	return d, nil
}

// write replaces the file, so that nobody can have opened it while others could read it.
func write(path string, text []byte) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// Close ends the calls under way, and takes the file away. Nil is fine.
func (d *Desk) Close() {
	if d == nil {
		return
	}
	_ = os.Remove(d.file)
	_ = d.server.Close()
	d.served.Wait()
	d.background.Stop()
}

// tokens keeps tokens in memory. It implements access.Store.
type tokens struct {
	mu   sync.Mutex
	byID map[string]access.Token
}

// AddToken implements access.Store.
func (s *tokens) AddToken(_ context.Context, t *access.Token) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[t.ID] = *t
	return nil
}

// Token implements access.Store.
func (s *tokens) Token(_ context.Context, id string) (*access.Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.byID[id]
	if !ok {
		return nil, fault.New(fault.NotFound, access.CodeTokenUnknown, "there is no token %s", id)
	}
	return &t, nil
}

// Tokens implements access.Store.
func (s *tokens) Tokens(context.Context) ([]access.Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]access.Token, 0, len(s.byID))
	for id := range s.byID {
		list = append(list, s.byID[id])
	}
	return list, nil
}

// DeleteToken implements access.Store.
func (s *tokens) DeleteToken(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, id)
	return nil
}

// UseToken implements access.Store.
func (*tokens) UseToken(context.Context, string, time.Time) error { return nil }
