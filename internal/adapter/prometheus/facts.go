package prometheus

import (
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/runlot/runlot/internal/engine/series"
)

// Facts are what a node knows at a moment.
type Facts struct {
	// Version is that of the program.
	Version   string
	Databases []Database
	Apps      []App
	// Runs are scheduled runs that ended, Calls the calls of the API.
	Runs  []Runs
	Calls []Calls
	// Pools are the connections to PostgreSQL.
	Pools []Pool
}

// Database is the queues of a database.
type Database struct {
	Name string
	// Up says that the queues are served here.
	Up bool
	// Queues are the numbers of each; one without a name stands for those beyond queue.SeriesQueues.
	Queues []series.Watched
	// DeadLetterQueues are the dead-letter queues by the name of the queue that they belong to.
	DeadLetterQueues map[string]string
	// Sends and Settles are the group commits.
	Sends, Settles series.Committed
	// Operations is what was used of today, Limit the daily cap; 0 is none.
	Operations, Limit int64
}

// App is an app that was deployed.
type App struct {
	Name string
	// Phase is a supervise.Phase.
	Phase string
	// Starts and Crashes count its processes since the node began.
	Starts, Crashes int64
	// MemoryBytes is that of its process; 0 when there is none.
	MemoryBytes int64
	// Requests counts the answers by the first digit of their status; place 0 is not used. Active are under way.
	Requests [6]int64
	Active   int64
}

// Runs counts the scheduled runs of an app that ended in one way.
type Runs struct {
	App, Outcome string
	Count        int64
}

// Calls counts the calls of one operation of the API that were answered in one way. Class is the first digit of the status.
type Calls struct {
	Operation string
	Class     int
	Count     int64
}

// Pool is the connections that a part of the node keeps to a database of PostgreSQL.
type Pool struct {
	// Database is the name of the database, Use says what for.
	Database, Use     string
	Busy, Idle, Limit int64
	Waits             int64
	Waited            time.Duration
}

// PoolOf is what is known of the connections to a database.
func PoolOf(databaseName, use string, pool *pgxpool.Pool) Pool {
	s := pool.Stat()
	return Pool{
		Database: databaseName, Use: use, Busy: int64(s.AcquiredConns()), Idle: int64(s.IdleConns()), Limit: int64(s.MaxConns()),
		Waits: s.EmptyAcquireCount(), Waited: s.EmptyAcquireWaitTime(),
	}
}
