package queue

import "time"

// Bounds of those who follow the invocations of a script live, with `wrangler tail`.
const (
	// MaxTails is how many follow one script at a time, MaxAllTails how many all scripts together.
	MaxTails    = 10
	MaxAllTails = 100
	// MaxTailFilters is how many filters one has.
	MaxTailFilters = 20
	// TailQueue is how many invocations wait for a reader; what comes while it is full is left out, and counted.
	TailQueue = 500
	// TailConnect is how long a tail that was made waits for its connection, and TailTime how long it lives.
	TailConnect = time.Minute
	TailTime    = 6 * time.Hour
	// TailPing is how often a reader is asked for a sign of life, and TailSilence how long it may be silent.
	TailPing    = 20 * time.Second
	TailSilence = time.Minute
	// TailWrite is how long a reader may take to take one event.
	TailWrite = 10 * time.Second
	// TailFrame is the most that a reader sends at a time, which nobody reads.
	TailFrame = 64 << 10
	// TailSwitch is how long a process may take to begin or end telling of every invocation.
	TailSwitch = 5 * time.Second
)
