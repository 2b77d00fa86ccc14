package memory

import (
	"context"
	"maps"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// account is what a database keeps beside its messages. The database's lock guards it.
type account struct {
	usage    map[usageKey]store.Usage
	refusals map[string]store.Refusal
	// size is what Size answers, until Compact sets it to compacted.
	size, compacted int64
}

type usageKey struct {
	source store.Source
	day    int32
}

// put keeps an entry unless there is a newer one.
func (l *account) put(u *store.Usage) {
	if u == nil {
		return
	}
	if l.usage == nil {
		l.usage = map[usageKey]store.Usage{}
	}
	key := usageKey{u.Source, u.Day}
	if l.usage[key].Number < u.Number {
		l.usage[key] = *u
	}
}

// refusal is why SQL may enqueue nothing now; nil when it may.
func (l *account) refusal() error {
	for _, r := range l.refusals {
		if time.Now().Before(r.Until) {
			return fault.New(fault.Limit, r.Code, "%s", r.Message).WithHint("%s", r.Hint)
		}
	}
	return nil
}

// SetSize sets what the database takes up on disk, and what is left of that after the next Compact.
func (d *Database) SetSize(size, compacted int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.account.size, d.account.compacted = size, compacted
}

// Usage implements store.Account.
func (s *Store) Usage(ctx context.Context) ([]store.Usage, error) {
	var list []store.Usage
	err := s.read(ctx, "Usage", func() {
		for _, u := range s.db.account.usage {
			list = append(list, u)
		}
	})
	return list, err
}

// SaveUsage implements store.Account.
func (s *Store) SaveUsage(ctx context.Context, entries []store.Usage, keep int32) error {
	return s.write(ctx, "SaveUsage", func() error {
		for i := range entries {
			s.db.account.put(&entries[i])
		}
		maps.DeleteFunc(s.db.account.usage, func(key usageKey, _ store.Usage) bool { return key.day < keep })
		return nil
	})
}

// SetRefusal implements store.Account.
func (s *Store) SetRefusal(ctx context.Context, refusal store.Refusal) error {
	return s.write(ctx, "SetRefusal", func() error {
		l := &s.db.account
		if l.refusals == nil {
			l.refusals = map[string]store.Refusal{}
		}
		l.refusals[refusal.Code] = refusal
		return nil
	})
}

// Size implements store.Account.
func (s *Store) Size(ctx context.Context) (int64, error) {
	var size int64
	err := s.read(ctx, "Size", func() { size = s.db.account.size })
	return size, err
}

// Compact implements store.Account.
func (s *Store) Compact(ctx context.Context) error {
	return s.write(ctx, "Compact", func() error {
		s.db.account.size = s.db.account.compacted
		return nil
	})
}
