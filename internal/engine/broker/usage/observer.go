package usage

import (
	"strconv"
	"time"
)

// capReached is the cap itself, as a part of it in percent.
const capReached = 100

// Alert says that a database has come to a part of its daily cap.
type Alert struct {
	// Percent is queue.OperationsWarning or 100. 100 comes when the cap is used up, or when a send is refused because it
	// would not fit.
	Percent int
	// Used and Cap are operations.
	Used, Cap int64
	// Day is the beginning of the day, Resets its end, in UTC.
	Day, Resets time.Time
}

// Fullness says that a database takes no more sends for want of space, or takes them again.
type Fullness struct {
	Full bool
	// Message says in a sentence what is full.
	Message string
}

// Observer is told when a bound is near or reached. Its methods are called from the broker's goroutines and must not block
// for long.
type Observer interface {
	// OperationsAlert comes once for a day and a part of the cap, also across restarts: it is recorded before it is told,
	// so that a crash in between can swallow it.
	OperationsAlert(alert Alert)
	// SpaceChanged comes when the database became full or has space again.
	SpaceChanged(fullness Fullness)
}

// Grouped writes n with a comma before each three digits.
func Grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
