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
	// AloneTime is how long a message that is suspected of killing its process keeps other suspects of the same app out.
	AloneTime = 10 * time.Second
	// LossBackoffFirst and LossBackoffMax are the waits of a queue after Lost batches, doubling, so that a process that dies
	// at every delivery is not fed without pause.
	LossBackoffFirst = 100 * time.Millisecond
	LossBackoffMax   = 10 * time.Second
	// ErrorBackoffFirst and ErrorBackoffMax are the waits after batches that could not run, doubling.
	ErrorBackoffFirst = time.Second
	ErrorBackoffMax   = time.Minute
	// SettleGrace is how long a stopping dispatcher still waits for the commit of its last settlements.
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
	// PeekRows and PeekBytes bound one page of messages that an operator looks at, OperateIDs the messages that one call
	// names, and ReasonBytes the text that a dead letter keeps of its last failure.
	PeekRows    = 1_000
	PeekBytes   = 4 << 20
	OperateIDs  = 1_000
	ReasonBytes = 1_000
	// OperateRows bounds one step of a purge or a redrive. Between two steps, sends and settlements have their turn.
	OperateRows = 1_000
	// OperateReadTime bounds one read of an operator's call in the database.
	OperateReadTime = 5 * time.Second
	// ReleaseTime bounds how long a broker that was stopped in haste takes to give its ownership back.
	ReleaseTime = 2 * time.Second
)

// Bounds of the runtime.
const (
	// DeliveryGrace is added to the batch timeout for the handler time of the runlot dialect.
	DeliveryGrace = 30 * time.Second
	// WranglerHandlerTime is the handler time of the wrangler dialect.
	WranglerHandlerTime = 15 * time.Minute
	// CancelGrace is how long a cancelled handler may take to let go before its process is killed.
	CancelGrace = 5 * time.Second
	// ProbeTime bounds the inspection of a new version's handlers.
	ProbeTime = 5 * time.Second
	// StartTime bounds the start of a worker process.
	StartTime = 15 * time.Second
	// DrainTime bounds how long a stopping worker process may finish what is in flight.
	DrainTime = 30 * time.Second
	// DevStopTime bounds the same for the whole stop of a development run; what is left then is delivered again.
	DevStopTime = 5 * time.Second
	// PingEvery and PingTime are the watchdog's rhythm and patience; a process that misses PingMisses answers in a row is killed.
	PingEvery  = 2 * time.Second
	PingTime   = 5 * time.Second
	PingMisses = 2
	// RestartFirst and RestartMax are the waits before a dead worker process is started again.
	RestartFirst = 200 * time.Millisecond
	RestartMax   = 30 * time.Second
	// RestartReset is how long a worker process has to run before its next death counts as the first again.
	RestartReset = 10 * time.Second
	// DrainingVersions is how many replaced worker processes of one app may drain at a time; one more cuts the oldest short.
	DrainingVersions = 3
	// HeapMiB is the V8 heap of one worker process, in MiB.
	HeapMiB = 512
	// MaxBindingBody is the largest body that the private socket reads: a full sendBatch in base64 with room for its frame.
	MaxBindingBody = 512 << 10
	// MaxBindingDiscard is the most of a refused body that is read and thrown away, so that the sender gets the answer.
	MaxBindingDiscard = 128 << 20
	// MaxResultBody is the largest answer to a delivery that is read.
	MaxResultBody = 1 << 20
	// MaxTailBody is the largest set of log events of one invocation that is read.
	MaxTailBody = 4 << 20
	// MaxBundle is the largest bundle, in bytes.
	MaxBundle = 64 << 20
	// MaxSecret is the longest secret, in bytes: an environment variable of Linux, with its name, has at most 128 KiB.
	MaxSecret = 127 << 10
	// OutputBytes is how much of a worker process's output is kept to explain its end.
	OutputBytes = 64 << 10
	// RuntimeIdle is how long a connection to a worker process stays open unused; workerd itself closes it after 15 s.
	RuntimeIdle = 10 * time.Second
	// RuntimeConnections is the most unused connections to one worker process that stay open.
	RuntimeConnections = 256
	// ExceptionWait is how long the result of a failed handler waits for the text of its exception.
	ExceptionWait = time.Second
	// RecentDeliveries is the number of ended deliveries of one process whose late logs can still be attributed.
	RecentDeliveries = 1024
	// WatchQuiet is how long no file may change before the changes are reported, WatchWait the longest that they wait.
	WatchQuiet = 100 * time.Millisecond
	WatchWait  = time.Second
	// WatchFiles and WatchFolders bound what is watched for changes.
	WatchFiles   = 20_000
	WatchFolders = 4_096
	// MaxBuildMessages is the most errors, and the most warnings, of one build that are shown.
	MaxBuildMessages = 20
)

// Bounds of configuration files.
const (
	// MaxConfigFile is the largest configuration or secrets file that is read, in bytes.
	MaxConfigFile = 1 << 20
	// MaxConfigDepth is how deep objects and arrays may nest in one.
	MaxConfigDepth = 100
	// MaxProblems is the most problems that are listed of one.
	MaxProblems = 100
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
}

// LimitsOf returns the limits of a dialect.
func LimitsOf(d Dialect) Limits {
	if d == Wrangler {
		return Limits{MessageBytes: 128_000, BatchBytes: 256_000, MaxRetries: 100}
	}
	return Limits{
		MessageBytes: 128 << 10, BatchBytes: 256 << 10, MaxRetries: 10,
		DefaultBackoff: Backoff{First: 10 * time.Second, Max: time.Hour},
	}
}

// HandlerTime returns how long a handler may take for one batch in this dialect.
func HandlerTime(d Dialect, batchTimeout time.Duration) time.Duration {
	if d == Wrangler {
		return WranglerHandlerTime
	}
	return batchTimeout + DeliveryGrace
}
