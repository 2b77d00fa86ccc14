package store

import "context"

// NoteKind is what an operator did to a message. The numbers are stored.
type NoteKind int16

// The kinds: the message was deleted, was made visible, or was moved to another queue.
const (
	NoteDeleted NoteKind = 1
	NoteHurried NoteKind = 2
	NoteMoved   NoteKind = 3
)

// Note has Apply keep, for each message that a change deletes, retries or moves, what it takes to undo that. A message that
// has a note of the same action already keeps that one. Of the notes of a queue, the oldest are dropped beyond
// queue.UndoDeleted deleted messages, queue.UndoBytes of their bodies, and queue.UndoMoved others.
type Note struct {
	// Action names what an operator did, in at most 64 bytes. It may be several changes, all of one kind.
	Action string
	// At is when, in milliseconds.
	At int64
}

// Return takes a message back to what it was, by its note, which is used up. Without the note nothing happens.
type Return struct {
	// Queue is that of the note, Seq the one that the message had there.
	Queue  int32
	Seq    int64
	Action string
	// To is the Seq that a message gets that comes back into the queue; it is above every other, as for Append. One that is
	// there already keeps its own.
	To int64
	// VisibleAt is the one that it has from then on.
	VisibleAt int64
}

// Forget drops notes: those of a queue, of one action or, for "", of all; or, for Queue 0, all from before a time, in
// milliseconds.
type Forget struct {
	Queue  int32
	Action string
	Before int64
}

// Noted is what an operator did in a queue, as far as there are notes of it.
type Noted struct {
	Action string
	Kind   NoteKind
	// Messages counts them. First and Last are when the first and the last of them were noted, in milliseconds.
	Messages    int64
	First, Last int64
}

// NotedMessage is one note: the message as it was before.
type NotedMessage struct {
	Head
	Kind NoteKind
	// To is where a message that was moved is, and ToVisibleAt what one that was made visible got as VisibleAt.
	To          Key
	ToVisibleAt int64
}

// Undo is the part of a Store that reads notes. Their writes are parts of a Change.
type Undo interface {
	// Noted returns what was done in a queue, 0 for any, at or after a time in milliseconds, the newest first.
	Noted(ctx context.Context, queueID int32, since int64) ([]Noted, error)
	// NotedMessages returns the notes of an action in a queue with a Seq above after, in order of Seq, at most limit.
	NotedMessages(ctx context.Context, queueID int32, action string, after int64, limit int) ([]NotedMessage, error)
}
