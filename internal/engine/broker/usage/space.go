package usage

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/span"
	"github.com/runlot/runlot/internal/engine/broker/pace"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// Bounds are what limits the space of a database. The zero value is no bound.
type Bounds struct {
	// Size is the most bytes that the database may take up, the tables of others included; 0 is no cap.
	Size int64
	// Free returns the free bytes of the disk that the database is on; nil when it is not known or not ours to look after.
	Free func() (int64, error)
}

// any reports whether there is a bound at all.
func (b Bounds) any() bool { return b.Size > 0 || b.Free != nil }

// sizeStop is the size from which on a database with this cap takes no sends, sizeGo the one below which it takes them
// again.
func sizeStop(size int64) int64 { return size - margin(size) }
func sizeGo(size int64) int64   { return size - 2*margin(size) }

func margin(size int64) int64 { return min(queue.SizeMargin, size*queue.SizeMarginPart/100) }

// diskGo is the free space of the disk above which sends are taken again.
const diskGo = queue.DiskReserve + queue.DiskReserve/4

// state is what was seen of a database.
type state struct {
	// size is what it takes up, free what its disk has left; known says which of them were read.
	size, free           int64
	sizeKnown, freeKnown bool
}

// judge says in a sentence why a database takes no sends, and "" when it takes them. Once it is full it stays so until
// there is clearly room again, so that it does not change from one look to the next.
func (b Bounds) judge(s state, full bool) string {
	most, least := sizeStop(b.Size), int64(queue.DiskReserve)
	if full {
		most, least = sizeGo(b.Size), diskGo
	}
	switch {
	case s.freeKnown && s.free < least:
		return fmt.Sprintf("the disk of the database has %s left, of which %s are kept for settling what is stored", bytes(s.free), bytes(queue.DiskReserve))
	case s.sizeKnown && b.Size > 0 && s.size >= most:
		return fmt.Sprintf("the database is full: it takes up %s of the %s that it may have", bytes(s.size), bytes(b.Size))
	}
	return ""
}

// bytes writes a size for a person, in the units of the settings.
func bytes(n int64) string {
	const mega, giga = 1 << 20, 1 << 30
	if n >= 10*giga {
		return fmt.Sprintf("%.1f GiB", float64(n)/giga)
	}
	return fmt.Sprintf("%d MiB", n/mega)
}

// Space watches how full a database is, and refuses sends while it is.
type Space struct {
	bounds   Bounds
	store    store.Account
	observer Observer
	log      *slog.Logger
	kick     pace.Kick

	// refusal is why sends are refused; nil while they are not.
	refusal atomic.Pointer[fault.Error]
	// written are the bytes that may have been added since the last look, room is how many may be before there is a reason
	// for another one.
	written, room atomic.Int64
	// deleted says that messages were deleted since their space was last given back.
	deleted atomic.Bool

	compacted time.Time
	told      bool
}

// NewSpace returns a watch that has not looked yet. Observer may be nil.
func NewSpace(b Bounds, account store.Account, observer Observer, log *slog.Logger) *Space {
	return &Space{bounds: b, store: account, observer: observer, log: log, kick: make(pace.Kick, 1)}
}

// Refusal is a fault of kind Limit and the code queue.CodeStorageFull while the database is full, and nil else.
func (s *Space) Refusal() error {
	if f := s.refusal.Load(); f != nil {
		return f
	}
	return nil
}

// Wrote notes that bytes of messages were stored: much of it is a reason to look again.
func (s *Space) Wrote(bytes int) {
	if s.bounds.any() && s.written.Add(int64(bytes)) >= s.room.Load() {
		s.kick.Poke()
	}
}

// Deleted notes that messages were deleted: while the database is full, that is a reason to look again.
func (s *Space) Deleted() {
	if !s.bounds.any() {
		return
	}
	s.deleted.Store(true)
	if s.refusal.Load() != nil {
		s.kick.Poke()
	}
}

// Loop looks every queue.SpaceEvery, and when there is a reason, until ctx ends. Without a bound it returns at once.
func (s *Space) Loop(ctx context.Context) {
	if !s.bounds.any() {
		return
	}
	for {
		if err := s.look(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("cannot tell how full the database is; trying again", "error", fault.Detail(err), "after", span.Text(queue.SpaceEvery))
		}
		if !s.pause(ctx) {
			return
		}
	}
}

// pause waits for the next look; false when ctx ended.
func (s *Space) pause(ctx context.Context) bool {
	least := time.NewTimer(queue.SpacePause)
	defer least.Stop()
	select {
	case <-least.C:
	case <-ctx.Done():
		return false
	}
	rest := time.NewTimer(queue.SpaceEvery - queue.SpacePause)
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-s.kick:
	case <-ctx.Done():
		return false
	}
	return true
}

// look reads how full the database is and draws the consequences.
func (s *Space) look(ctx context.Context) error {
	full := s.refusal.Load() != nil
	if full && time.Since(s.compacted) >= queue.CompactEvery && s.deleted.Swap(false) {
		s.compacted = time.Now()
		if err := s.store.Compact(ctx); err != nil {
			// Space may come back in other ways.
			s.log.Warn("cannot give back the space of deleted messages", "error", fault.Detail(err))
		}
	}
	s.written.Store(0)
	seen, err := s.see(ctx)
	if err != nil {
		return err
	}
	s.room.Store(s.bounds.room(seen))
	return s.conclude(ctx, s.bounds.judge(seen, full), full)
}

func (s *Space) see(ctx context.Context) (seen state, err error) {
	if s.bounds.Size > 0 {
		if seen.size, err = s.store.Size(ctx); err != nil {
			return seen, fmt.Errorf("size of the database: %w", err)
		}
		seen.sizeKnown = true
	}
	if s.bounds.Free != nil {
		if seen.free, err = s.bounds.Free(); err != nil {
			return seen, fmt.Errorf("free space of the disk: %w", err)
		}
		seen.freeKnown = true
	}
	return seen, nil
}

// room is how much may be written before another look is due: half of what is left, at least the margin.
func (b Bounds) room(s state) int64 {
	left := int64(1) << 62
	if s.sizeKnown {
		left = max((sizeStop(b.Size)-s.size)/2, margin(b.Size)/2)
	}
	if s.freeKnown {
		left = min(left, max((s.free-queue.DiskReserve)/2, queue.DiskReserve/8))
	}
	return left
}

// conclude refuses sends for a reason, or takes them again when it is "".
func (s *Space) conclude(ctx context.Context, reason string, full bool) error {
	if reason == "" {
		s.refusal.Store(nil)
		if full {
			s.report(Fullness{Message: "the database has space again; sends are accepted"})
		}
		if full || !s.told {
			return s.tellSQL(ctx, store.Refusal{Code: queue.CodeStorageFull})
		}
		return nil
	}
	f := fault.New(fault.Limit, queue.CodeStorageFull, "%s", reason).
		WithHint("let the queues drain, delete other data, or have the operator make room or raise --database-size-cap")
	s.refusal.Store(f)
	if !full {
		s.report(Fullness{Full: true, Message: reason})
	}
	// It ends by itself when nobody renews it.
	return s.tellSQL(ctx, store.Refusal{Code: queue.CodeStorageFull, Message: f.Message, Hint: f.Hint, Until: time.Now().Add(6 * queue.SpaceEvery)})
}

func (s *Space) tellSQL(ctx context.Context, r store.Refusal) error {
	if err := s.store.SetRefusal(ctx, r); err != nil {
		return fmt.Errorf("tell SQL how full the database is: %w", err)
	}
	s.told = true
	return nil
}

func (s *Space) report(f Fullness) {
	s.log.Warn("the space of the database", "full", f.Full, "state", f.Message)
	if s.observer != nil {
		s.observer.SpaceChanged(f)
	}
}
