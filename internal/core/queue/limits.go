package queue

import "time"

// Dialect names the configuration language of an app; some limits and defaults differ by it.
type Dialect string

// The two dialects.
const (
	Runlot   Dialect = "runlot"
	Wrangler Dialect = "wrangler"
)

// Bounds of messages and consumers that both dialects share. Sources: the two product documents, and Cloudflare Queues
// where they are silent.
const (
	// MaxDelay is the longest delay of a send or a retry.
	MaxDelay = 24 * time.Hour
	// MaxSendBatch is the most messages in one sendBatch call.
	MaxSendBatch = 100
	// MaxBatchSize is the most messages in one delivered batch.
	MaxBatchSize = 100
	// DefaultBatchSize is the batch size of a consumer that names none.
	DefaultBatchSize = 10
	// MaxBatchTimeout is the longest wait for a batch to fill.
	MaxBatchTimeout = 60 * time.Second
	// DefaultBatchTimeout is the wait of a consumer that names none.
	DefaultBatchTimeout = 5 * time.Second
	// DefaultMaxRetries is the number of retries of a consumer that names none.
	DefaultMaxRetries = 3
	// MaxConcurrency is the most batches of one queue at the same time.
	MaxConcurrency = 250
	// MaxProducerCalls is the most producer calls under way at a time, per queue.
	MaxProducerCalls = 256
	// MinRetention, DefaultRetention and MaxRetention bound how long a message stays unsettled.
	MinRetention     = 60 * time.Second
	DefaultRetention = 4 * 24 * time.Hour
	MaxRetention     = 14 * 24 * time.Hour
	// MaxQueueName is the longest queue name, in bytes.
	MaxQueueName = 63
)

// Bounds of the engine: memory, group commits and waits.
const (
	// SendTimeout is how long a producer call waits for its commit before it fails with code 10250.
	SendTimeout = 10 * time.Second
	// GroupRows and GroupBytes bound one group commit of sends.
	GroupRows  = 5_000
	GroupBytes = 4 << 20
	// GroupWaiting bounds the bytes of sends that wait for a group commit, per database; past it a send waits its turn.
	GroupWaiting = 64 << 20
	// SettleRows bounds one group commit of settlements.
	SettleRows = 10_000
	// LaneBytes and LaneRows bound what one queue holds in memory ready to be delivered.
	LaneBytes = 8 << 20
	LaneRows  = 20_000
	// StoreLaneBytes bounds what all queues of one database hold in memory.
	StoreLaneBytes = 256 << 20
	// DueRows bounds the delayed messages that one queue holds in memory.
	DueRows = 10_000
	// ReadRows and ReadBytes bound one read from the store.
	ReadRows  = 5_000
	ReadBytes = 4 << 20
	// InboxRows bounds one drain of the rows that SQL enqueued; InboxEvery is the pause between two looks at an empty inbox.
	InboxRows  = 1_000
	InboxEvery = 200 * time.Millisecond
	// RowOverhead is added to the body's size when a message's memory is counted.
	RowOverhead = 160
	// DispatchBytes bounds the bodies of all batches that this process has between lease and commit; each batch counts at
	// least DispatchMinBytes, which bounds their number (1,024). One batch of each queue is always let through.
	DispatchBytes    = 256 << 20
	DispatchMinBytes = 256 << 10
	// UnsettledPerCall bounds the batches of one queue between lease and commit, as a multiple of the handler calls allowed
	// at a time, at least UnsettledMin: a commit in progress costs no handler time, and when the store falls behind,
	// handlers wait for it.
	UnsettledPerCall = 2
	UnsettledMin     = 16
	// GrowEvery is how long every handler call of a queue has been busy, with a full batch waiting, before automatic
	// concurrency allows one more without waiting for one of them to end.
	GrowEvery = time.Second
	// GrowHandlerTimePart: a call that took more than this part of the handler time (a quarter) lets automatic concurrency
	// grow no further, because calls that share a process make each other slower.
	GrowHandlerTimePart = 4
	// AloneTime is how long a message that is suspected of killing its process keeps other suspects of the same app out:
	// longer than the watchdog takes to find a process that is stuck (PingEvery and PingMisses of PingTime), or those let in
	// meanwhile would be blamed for its end.
	AloneTime = 20 * time.Second
	// LossBackoffFirst and LossBackoffMax are the waits of a queue after Lost batches, doubling, so that a process that dies
	// at every delivery is not fed without pause.
	LossBackoffFirst = 100 * time.Millisecond
	LossBackoffMax   = 10 * time.Second
	// ErrorBackoffFirst and ErrorBackoffMax are the waits after batches that could not run, doubling.
	ErrorBackoffFirst = time.Second
	ErrorBackoffMax   = time.Minute
	// SettleGrace is how long a stopping dispatcher still waits for the commit of its last settlements, and after it its
	// database.
	SettleGrace = 5 * time.Second
	// StoreRetryFirst and StoreRetryMax are the waits between two tries at a store that does not answer.
	StoreRetryFirst = 50 * time.Millisecond
	StoreRetryMax   = 2 * time.Second
	// StoreConnectTime bounds the opening of a connection to the database.
	StoreConnectTime = 5 * time.Second
	// StorePingEvery and StorePingTime are the rhythm and the patience of the check that the owner's session lives.
	StorePingEvery = 2 * time.Second
	StorePingTime  = 5 * time.Second
	// StoreAcquireEvery is the pause between two tries at the ownership that another node holds.
	StoreAcquireEvery = 200 * time.Millisecond
	// StoreAcquireTime is how long a node waits for an ownership that another one holds, and HolderPatience how long a celld
	// waits for another one that uses the database of its apps.
	StoreAcquireTime = 30 * time.Second
	HolderPatience   = 20 * time.Second
	// StoreReaders bounds the connections that read from one database.
	StoreReaders = 4
	// LaneReaders is the most reads of waiting messages at a time, per database.
	LaneReaders = 2
	// SeqReserve is how far ahead of the clock sequence numbers are reserved; a crash may leave so large a gap.
	SeqReserve = 10 * time.Second
	// SeqReserveIdle is the same while nothing is sent and only the inbox is looked at: the one write of an idle database.
	SeqReserveIdle = time.Minute
	// MarksEvery is the pause between two records of how far queues are settled.
	MarksEvery = 5 * time.Second
	// ExpireRows bounds one step of deleting what outlived its retention; ExpireEvery is the pause between two looks at a
	// queue that holds messages, ExpirePause the pause between two steps while there is more.
	ExpireRows  = 1_000
	ExpireEvery = time.Minute
	ExpirePause = 100 * time.Millisecond
	// UsageEvery is how long counted deliveries, SQL sends and expiries wait in memory before they are written. UsageDays is
	// how long the counts of a day are kept.
	UsageEvery = time.Second
	UsageDays  = 30
	// OperationsWarning is the part of the daily cap, in percent, at which a warning is due.
	OperationsWarning = 90
	// SpaceEvery is the pause between two looks at the space of a database that has a bound, SpacePause the shortest pause
	// when there is a reason to look again.
	SpaceEvery = 10 * time.Second
	SpacePause = time.Second
	// CompactEvery is the shortest pause between two tries to give back the space of deleted messages of a full database.
	CompactEvery = 15 * time.Second
	// SizeMargin is how far below its size cap a database takes no more sends, at most SizeMarginPart percent of the cap: what
	// is stored has to be settled, which writes too.
	SizeMargin     = 64 << 20
	SizeMarginPart = 5
	// MinSizeCap is the lowest size cap that a database may have: an empty one has about 8 MiB.
	MinSizeCap = 16 << 20
	// DiskReserve is the free space of the disk under the embedded PostgreSQL from which on it takes no more sends.
	DiskReserve = 256 << 20
	// PeekRows and PeekBytes bound one page of messages that an operator looks at, OperateIDs the messages that one call
	// names, and ReasonBytes the text that a message keeps of its last failure.
	PeekRows    = 1_000
	PeekBytes   = 4 << 20
	OperateIDs  = 1_000
	ReasonBytes = 1_000
	// DelayedCounted is the most delayed messages of a queue that are counted for an overview.
	DelayedCounted = 10_000
	// OperateRows bounds one step of a purge or a redrive. Between two steps, sends and settlements have their turn.
	OperateRows = 1_000
	// RemoveTime is how long the deletion of a queue waits for transactions that sent to it, RemoveLockTime how long it keeps
	// sends and settlements waiting meanwhile, each time.
	RemoveTime     = 5 * time.Second
	RemoveLockTime = 100 * time.Millisecond
	// UndoTime is how long what an operator did to messages can be undone. Of one queue, UndoDeleted messages that were deleted
	// are kept for it, UndoBytes of their bodies, and UndoMoved notes of messages that were moved or made visible.
	UndoTime    = time.Hour
	UndoDeleted = 1_000
	UndoBytes   = 64 << 20
	UndoMoved   = 10_000
	// OperateReadTime bounds one read of an operator's call in the database.
	OperateReadTime = 5 * time.Second
	// FilterBytes and FilterTerms bound the text of a filter of messages.
	FilterBytes = 2_000
	FilterTerms = 20
	// SearchRows and SearchBytes bound the messages and the bodies that one step of a search looks at, SearchTime its time in
	// the database. SearchLooked bounds what one call for a page looks at.
	SearchRows   = 5_000
	SearchBytes  = 16 << 20
	SearchTime   = 2 * time.Second
	SearchLooked = 20_000
	// CountLooked and CountMatched bound what one call looks at and counts to say how many messages match.
	CountLooked  = 200_000
	CountMatched = 10_000
	// OperationsRunning is the most background operations that one instance runs at a time, OperationsOpen the most that run
	// or wait. OperationsKept of those that ended are kept. Progress is stored every OperationSave.
	OperationsRunning = 4
	OperationsOpen    = 100
	OperationsKept    = 1_000
	OperationSave     = time.Second
	// HistoryRecords is the most records of batches that the history of one message shows.
	HistoryRecords = 100
	// ReleaseTime bounds how long a broker that was stopped in haste takes to give its ownership back.
	ReleaseTime = 2 * time.Second
)

// Bounds of consumers over HTTP.
const (
	// DefaultPull is the most messages of a pull that names no number; MaxBatchSize is the most that one may name.
	DefaultPull = 5
	// MinVisibility, DefaultVisibility and MaxVisibility bound how long a pulled message is leased.
	MinVisibility     = time.Millisecond
	DefaultVisibility = 30 * time.Second
	MaxVisibility     = 12 * time.Hour
	// MaxPullWait is the longest that a pull waits for a message, PullWaiting the most that wait at a time, per database.
	MaxPullWait = 30 * time.Second
	PullWaiting = 64
	// PullHeld is the most messages of a queue that are pulled and not settled, PullHeldBytes about the most bytes of their
	// bodies, per database.
	PullHeld      = 20_000
	PullHeldBytes = 64 << 20
	// PullAnswers is the most acks and retries of one call.
	PullAnswers = 1_000
)

// Limits are the bounds and defaults that depend on the dialect.
type Limits struct {
	// MessageBytes bounds one serialized body, BatchBytes the sum of the bodies of one sendBatch call.
	MessageBytes int
	BatchBytes   int
	// MaxRetries is the highest number of retries that a consumer may name.
	MaxRetries int
	// DefaultBackoff is the wait of a consumer that names none.
	DefaultBackoff Backoff
	// DailyOperations is the daily cap of a database for which no other is set; 0 is none.
	DailyOperations int64
}

// LimitsOf returns the limits of a dialect.
func LimitsOf(d Dialect) Limits {
	if d == Wrangler {
		return Limits{MessageBytes: 128_000, BatchBytes: 256_000, MaxRetries: 100}
	}
	return Limits{
		MessageBytes: 128 << 10, BatchBytes: 256 << 10, MaxRetries: 10,
		DefaultBackoff: Backoff{First: 10 * time.Second, Max: time.Hour}, DailyOperations: 1_000_000,
	}
}

// HandlerTime returns how long a handler may take for one batch in this dialect.
func HandlerTime(d Dialect, batchTimeout time.Duration) time.Duration {
	if d == Wrangler {
		return WranglerHandlerTime
	}
	return batchTimeout + DeliveryGrace
}
