package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// noted is a note, with the body of a message that was deleted.
type noted struct {
	store.NotedMessage

	action string
	at     int64
	body   []byte
}

// note notes what a change does to the messages that it finds.
func (d *Database) note(c *store.Change) {
	if c.Note == nil {
		return
	}
	for _, k := range c.Delete {
		d.noteOne(c.Note, k, store.NotedMessage{Kind: store.NoteDeleted})
	}
	for i := range c.Retry {
		d.noteOne(c.Note, c.Retry[i].Key, store.NotedMessage{Kind: store.NoteHurried, ToVisibleAt: c.Retry[i].VisibleAt})
	}
	for i := range c.Move {
		d.noteOne(c.Note, c.Move[i].From, store.NotedMessage{Kind: store.NoteMoved, To: c.Move[i].To})
	}
	// The newest first, so that the oldest are those beyond the bounds.
	slices.SortStableFunc(d.notes, func(x, y noted) int { return cmp.Or(cmp.Compare(y.at, x.at), cmp.Compare(y.Seq, x.Seq)) })
	deleted, moved, bytes := map[int32]int{}, map[int32]int{}, map[int32]int{}
	d.notes = slices.DeleteFunc(d.notes, func(n noted) bool {
		if n.Kind != store.NoteDeleted {
			moved[n.Queue]++
			return moved[n.Queue] > queue.UndoMoved
		}
		deleted[n.Queue]++
		bytes[n.Queue] += n.Bytes
		return deleted[n.Queue] > queue.UndoDeleted || bytes[n.Queue] > queue.UndoBytes
	})
}

func (d *Database) noteOne(how *store.Note, k store.Key, n store.NotedMessage) {
	q := d.numbered(k.Queue)
	if q == nil || d.findNote(k.Queue, how.Action, k.Seq) >= 0 {
		return
	}
	row, ok := q.due[k.Seq]
	if !ok {
		p := q.readyRow(k.Seq)
		if p == nil {
			return
		}
		row = *p
	}
	n.Head = q.head(&row)
	one := noted{NotedMessage: n, action: how.Action, at: how.At}
	if n.Kind == store.NoteDeleted {
		one.body = row.Body
	}
	d.notes = append(d.notes, one)
}

func (d *Database) findNote(queueID int32, action string, seq int64) int {
	return slices.IndexFunc(d.notes, func(n noted) bool { return n.Queue == queueID && n.action == action && n.Seq == seq })
}

// back takes a message back to what it was.
func (d *Database) back(r *store.Return) {
	at := d.findNote(r.Queue, r.Action, r.Seq)
	if at < 0 {
		return
	}
	n := d.notes[at]
	d.notes = slices.Delete(d.notes, at, at+1)
	row := n.Row
	row.VisibleAt = r.VisibleAt
	switch n.Kind {
	case store.NoteHurried:
		d.retry(&store.Retry{Key: store.Key{Queue: n.Queue, Seq: n.Seq}, Failures: n.Failures, Losses: n.Losses, VisibleAt: r.VisibleAt})
		return
	case store.NoteMoved:
		moved, ok := d.numbered(n.To.Queue).remove(n.To.Seq)
		if !ok {
			return
		}
		row.Body = moved.Body
	case store.NoteDeleted:
		row.Body = n.body
	}
	row.Origin, row.Seq = cmp.Or(n.Origin, n.Seq), r.To
	q := d.numbered(n.Queue)
	q.add(&row)
	if n.Source != 0 {
		q.letters[row.Seq] = letter{source: n.Source, reason: n.Reason}
	}
}

func (d *Database) forget(f *store.Forget) {
	d.notes = slices.DeleteFunc(d.notes, func(n noted) bool {
		if f.Queue == 0 {
			return n.at < f.Before
		}
		return n.Queue == f.Queue && (f.Action == "" || f.Action == n.action)
	})
}

// Noted implements store.Undo.
func (s *Store) Noted(ctx context.Context, queueID int32, since int64) ([]store.Noted, error) {
	var list []store.Noted
	err := s.read(ctx, "Noted", func() {
		for i := range s.db.notes {
			n := &s.db.notes[i]
			if queueID != 0 && n.Queue != queueID || n.at < since {
				continue
			}
			at := slices.IndexFunc(list, func(a store.Noted) bool { return a.Action == n.action })
			if at < 0 {
				at = len(list)
				list = append(list, store.Noted{Action: n.action, Kind: n.Kind, First: n.at, Last: n.at})
			}
			a := &list[at]
			a.Messages++
			a.First, a.Last = min(a.First, n.at), max(a.Last, n.at)
		}
		slices.SortStableFunc(list, func(x, y store.Noted) int { return cmp.Compare(y.Last, x.Last) })
	})
	return list, err
}

// NotedMessages implements store.Undo.
func (s *Store) NotedMessages(ctx context.Context, queueID int32, action string, after int64, limit int) ([]store.NotedMessage, error) {
	var list []store.NotedMessage
	err := s.read(ctx, "NotedMessages", func() {
		for i := range s.db.notes {
			if n := &s.db.notes[i]; n.Queue == queueID && n.action == action && n.Seq > after {
				list = append(list, n.NotedMessage)
			}
		}
		slices.SortFunc(list, func(x, y store.NotedMessage) int { return cmp.Compare(x.Seq, y.Seq) })
		list = list[:min(limit, len(list))]
	})
	return list, err
}
