package series

import (
	"context"
	"time"
)

// Row is what one process knows of a queue in one minute.
type Row struct {
	Queue string
	// Writer is the process: several may have had a part in the same minute, and their rows add up.
	Writer int64
	Point
}

// Store keeps minutes. Its methods may be called from several goroutines. An error of fault kind Unavailable is worth
// another try. The contract is written as tests in package seriestest.
type Store interface {
	// Write adds rows in one transaction. A row that is there already (of the same queue, minute and writer) is skipped, so
	// that a Write whose end is in doubt may be repeated; so is a row of a queue that does not exist.
	Write(ctx context.Context, rows []Row) error
	// Read returns the rows of a queue with from <= Start < to, in order of Start and Writer.
	Read(ctx context.Context, queue string, from, to time.Time) ([]Row, error)
	// Prune gives the space of whole days back that lie queue.SeriesAge before now, and reports how many. It never waits for a
	// reader for longer than a moment: what is in use is left to the next call.
	Prune(ctx context.Context, now time.Time) (days int, err error)
}

// Source tells how the queues of the database are now, by name, and false when that cannot be told, as while the database
// is away. It does not block beyond ctx.
type Source func(ctx context.Context) (map[string]Gauges, bool)
