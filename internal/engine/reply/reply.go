// Package reply is what is remembered of calls that carry an idempotency key, so that one which is repeated because its
// answer was lost has its effect once.
package reply

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// Key names a call: the hash of whose key it is and of the key.
type Key [sha256.Size]byte

// Call is what is remembered of one.
type Call struct {
	// Digest is that of what was asked, so that a key which belongs to another call is told apart.
	Digest [sha256.Size]byte
	// Node and Boot say which program carries the call out, and which run of it.
	Node, Boot string
	// Status is the HTTP status of the answer; 0 while the call is under way, or when its program ended under it.
	Status int
	// Answer is the body; nil when it was too large to be kept.
	Answer []byte
}

// Store remembers calls for queue.RepliesKept, and the newest queue.KeptReplies of them. Fault: Unavailable.
type Store interface {
	// Begin notes that a call begins, and returns nil; or it returns what is known of the one with this key.
	Begin(ctx context.Context, key Key, call *Call) (*Call, error)
	// End notes the answer.
	End(ctx context.Context, key Key, status int, answer []byte) error
	// Drop forgets a call: it may be made again.
	Drop(ctx context.Context, key Key) error
}

// Memory is a Store that the end of the program empties.
type Memory struct {
	mu    sync.Mutex
	calls map[Key]*remembered // guarded by mu
	order []Key               // the oldest first; guarded by mu
}

// inMemory is how many calls a Memory remembers: fewer than a store on a disk.
const inMemory = queue.KeptReplies / 5

type remembered struct {
	Call
	began time.Time
}

// NewMemory returns a store that remembers nothing yet.
func NewMemory() *Memory { return &Memory{calls: map[Key]*remembered{}} }

// Begin implements Store.
func (m *Memory) Begin(_ context.Context, key Key, call *Call) (*Call, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.calls[key]; known != nil && time.Since(known.began) < queue.RepliesKept {
		copied := known.Call
		return &copied, nil
	}
	m.calls[key] = &remembered{*call, time.Now()}
	m.order = append(m.order, key)
	if len(m.order) > inMemory {
		delete(m.calls, m.order[0])
		m.order = m.order[1:]
	}
	return nil, nil //nolint:nilnil // nothing is known, which is no error
}

// End implements Store.
func (m *Memory) End(_ context.Context, key Key, status int, answer []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if call := m.calls[key]; call != nil {
		call.Status, call.Answer = status, answer
	}
	return nil
}

// Drop implements Store.
func (m *Memory) Drop(_ context.Context, key Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.calls, key)
	return nil
}
