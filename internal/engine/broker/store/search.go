package store

import "github.com/runlot/runlot/internal/core/filter"

// Search is one step of a search: it looks at the messages of a queue with After < Seq <= UpTo, in order of Seq.
type Search struct {
	Filter      filter.Filter
	After, UpTo int64
	// Only, when it is not nil, are the Seqs that are looked at, in order; others are passed over.
	Only []int64
	// Now is the time that ages and states count to, in milliseconds, and Flying are the Seqs of what is under lease.
	Now    int64
	Flying []int64
	// Database is the first half of the IDs, and Sources the numbers of the queues that exist, by name, as far as terms name
	// them.
	Database uint64
	Sources  map[string]int32
	// Rows and Bytes bound the messages that are looked at, and, but for the first and where bodies are needed, their bodies.
	Rows, Bytes int
}

// Searched is what a step found.
type Searched struct {
	// Looked counts the messages that were looked at, and Last is the Seq of the last of them; 0 for none.
	Looked int
	Last   int64
	// More says that there may be some behind Last.
	More    bool
	Matches []Match
}

// Match is a message that matches: its Seq, that under which it was first accepted, and the how many-th it is of those looked
// at, from 1.
type Match struct {
	Seq, Accepted int64
	Place         int
}
