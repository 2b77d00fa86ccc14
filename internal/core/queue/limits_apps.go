package queue

import "time"

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
	// ResumeAtOnce is how many apps are brought back at a time when celld starts.
	ResumeAtOnce = 16
	// RestartFirst and RestartMax are the waits before a dead worker process is started again, and before an app is that was
	// left out when celld started.
	RestartFirst = 200 * time.Millisecond
	RestartMax   = 30 * time.Second
	// RestartReset is how long a worker process has to run before its next death counts as the first again.
	RestartReset = 10 * time.Second
	// DrainingVersions is how many replaced worker processes of one app may drain at a time; one more cuts the oldest short.
	DrainingVersions = 3
	// HeapMiB is the V8 heap of one worker process, in MiB.
	HeapMiB = 512
	// ProcessMiB is the memory that one worker process may have resident, in MiB: its heap, ArrayBuffers, WebAssembly, and the
	// runtime itself. MemoryEvery is the rhythm at which it is looked at; a process with more is killed.
	ProcessMiB  = 1_024
	MemoryEvery = 250 * time.Millisecond
	// ProcessWallMiB is the private memory that one worker process may set aside, in MiB; an allocation beyond it fails. The
	// runtime sets about 550 MiB aside that it does not use.
	ProcessWallMiB = 2_048
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
	// LogWait is how long the line of a batch waits for the lines that its handler logged, in a development run.
	LogWait = 500 * time.Millisecond
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

// Bounds of the public door of an app.
const (
	// PublicConnections is the most connections that clients hold to one app at a time. One more is answered with status 503
	// and told to come back after PublicRetryAfter.
	PublicConnections = 4_096
	PublicRetryAfter  = time.Second
	// OperatorConnections is the same for the address of operators.
	OperatorConnections = 256
	// PublicRefusalTime is how long a client that is refused may take to read so.
	PublicRefusalTime = 2 * time.Second
	// PublicHeaderTime and PublicHeaderBytes bound the head of a request, from its first byte on.
	PublicHeaderTime  = 10 * time.Second
	PublicHeaderBytes = 64 << 10
	// TraceSpans is the most spans that wait for the collector; more are dropped. TraceExportTime is how long it may take for
	// some of them, TraceText the longest text of an attribute, in bytes.
	TraceSpans      = 8_192
	TraceExportTime = 10 * time.Second
	TraceText       = 1 << 10
	// MaxTraceHead is the most bytes that stand before a message which says what code sends it.
	MaxTraceHead = 1 << 10
	// PublicIdle is how long a connection stays open between two requests.
	PublicIdle = 75 * time.Second
)

// Bounds of scheduled runs.
const (
	// MaxCrons is the most crons of one app.
	MaxCrons = 250
	// MaxCronText is the longest cron expression, in bytes.
	MaxCronText = 256
	// CronTime is how long a scheduled handler may take for one run.
	CronTime = 15 * time.Minute
	// CronLate is how long after its time an occurrence may still begin, or be tried again.
	CronLate = 24 * time.Hour
	// CronRetryFirst and CronRetryMax are the waits before a run is tried again, doubling.
	CronRetryFirst = 10 * time.Second
	CronRetryMax   = time.Hour
	// CronLease is how long a run belongs to its node without a word from it; CronRenewEvery is the rhythm of that word, and
	// CronRenewTime how long after the last one the node gives the run up by itself. The handler has CancelGrace to let go.
	CronLease      = 30 * time.Second
	CronRenewEvery = 5 * time.Second
	CronRenewTime  = 20 * time.Second
	// CronCheckEvery is the longest that a changed clock of the machine goes unnoticed.
	CronCheckEvery = 15 * time.Second
	// CronClockBack is how far a clock may be put back without an occurrence coming again; more is a correction.
	CronClockBack = 3 * time.Hour
	// CronMissedCounted is up to how many missed occurrences are counted.
	CronMissedCounted = 10_000
	// RunRetention and RunsKept bound how long, and how many of one cron, records of runs are kept; RunPruneRows bounds one
	// step of deleting more, RunPruneEvery is how many runs come between two.
	RunRetention  = 7 * 24 * time.Hour
	RunsKept      = 10_000
	RunPruneRows  = 1_000
	RunPruneEvery = 100
	// RunBeginTime is how long a run that a person asks for waits for its app to be there, and RunsAnswerTime how long a list
	// of crons or runs waits for the database.
	RunBeginTime   = time.Minute
	RunsAnswerTime = 15 * time.Second
	// RunTextBytes bounds each text of a record: of what the handler threw, its message and its stack.
	RunTextBytes = 16 << 10
	// CronConnections bounds the connections to one database for crons; CronConnectionIdle is how long an unused one stays.
	CronConnections    = 4
	CronConnectionIdle = 5 * time.Minute
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

// Bounds of the shell for SQL.
const (
	// ShellStatementBytes is the longest statement, ShellRows the most rows of a result that are shown.
	ShellStatementBytes = 16 << 20
	ShellRows           = 10_000
)

// Bounds of D1 databases. Those that SQL can meet are Cloudflare D1's.
const (
	// D1Params is the most parameters of one statement.
	D1Params = 100
	// D1SQLBytes is the longest text of one query.
	D1SQLBytes = 100_000
	// D1ValueBytes is the largest string, BLOB or row.
	D1ValueBytes = 2_000_000
	// D1Columns is the most columns of a table or of a result.
	D1Columns = 100
	// D1Depth is how deep an expression may nest, D1Compound the most terms of a compound SELECT, D1Arguments the most
	// arguments of a function, D1Pattern the longest pattern of LIKE and GLOB.
	D1Depth     = 100
	D1Compound  = 5
	D1Arguments = 32
	D1Pattern   = 50
	// D1TriggerDepth is how deep triggers may call each other.
	D1TriggerDepth = 10
	// D1StatementTime is how long one statement may run.
	D1StatementTime = 30 * time.Second
	// D1DatabaseBytes is the largest size of one database, unless the node is told another.
	D1DatabaseBytes = 10 << 30
	// D1Waiting is the most calls that wait for one database, D1WaitTime the longest that one of them waits.
	D1Waiting  = 1_000
	D1WaitTime = 60 * time.Second
	// D1BusyTime is how long a statement waits for another process that writes to the same file.
	D1BusyTime = 10 * time.Second
	// D1RequestBytes is the largest call, with all its statements and values as JSON.
	D1RequestBytes = 32 << 20
	// D1RequestsBytes bounds the calls that are read and run at a time, over all databases of a node; a call that finds no
	// room waits.
	D1RequestsBytes = 256 << 20
	// D1Running is the most databases of a node that run a call at a time.
	D1Running = 64
	// D1ResultBytes bounds the rows that one call returns, as JSON; blobs are lists of numbers there.
	D1ResultBytes = 32 << 20
	// D1Operators is how many calls of operators run SQL at a time; each has D1RequestBytes and D1ResultBytes.
	D1Operators = 4
	// D1MemoryBytes bounds the memory of SQLite for one database; what it sorts beyond that lies in temporary files.
	D1MemoryBytes = 256 << 20
	// D1Open is the most databases that stay open while nobody calls them.
	D1Open = 64
	// D1MigrationBytes is the largest file of SQL that is read: a migration, or what is executed from a file.
	D1MigrationBytes = 64 << 20
	// D1Transfers is how many files of SQL are on their way through Cloudflare's API at a time, D1TransferTime how long an
	// address of one of them is good.
	D1Transfers    = 4
	D1TransferTime = 10 * time.Minute
)

// Bounds of what celld keeps of its apps.
const (
	// KeptVersions is how many versions of an app are kept beside the live one; the oldest go first.
	KeptVersions = 100
	// OpenVersion is how long after its upload a version takes in what its author declares by calls of their own, as wrangler
	// does with crons and consumers.
	OpenVersion = 5 * time.Minute
	// KeptEvents is how many events are kept; the oldest go first.
	KeptEvents = 10_000
	// MaxDeployMessage is the longest message of a version or a deployment, in characters.
	MaxDeployMessage = 1_000
	// MaxSecrets is the most secrets of one app.
	MaxSecrets = 100
	// MaxTokens is the most API tokens.
	MaxTokens = 1_000
	// ControlConnections bounds the connections to the database of apps, versions and tokens.
	ControlConnections = 4
	// MaxAPIBody and MaxUpload are the largest bodies of a call of the API and of an upload; APIBodyTime is how long one may
	// take to arrive.
	MaxAPIBody  = 1 << 20
	MaxUpload   = 80 << 20
	APIBodyTime = 2 * time.Minute
	// MaxModules is the most modules of one version.
	MaxModules = 1_000
	// RepliesKept is how long, and KeptReplies how many, answers of the API are kept for calls that are repeated with the same
	// key, MaxReply the largest of them. ReplyPruneEvery is how many calls come between two looks at what is beyond that.
	RepliesKept     = 24 * time.Hour
	KeptReplies     = 5_000
	MaxReply        = 64 << 10
	ReplyPruneEvery = 100
	// BatchPage is the most records of batches in one answer that has what they logged too.
	BatchPage = 100
	// FollowEvery is how often a program that follows what happens asks for news.
	FollowEvery = time.Second
	// MaxPage is the most entries in one answer of a list.
	MaxPage = 1_000
	// SessionTime is how long a sign-in to the page holds.
	SessionTime = 12 * time.Hour
	// SignInTries is how many refused sign-ins to the page a client address has in SignInWindow; SignInClients is how many
	// addresses are remembered.
	SignInTries   = 10
	SignInWindow  = time.Minute
	SignInClients = 1_000
	// LiveStreams is how many views of the page are kept up to date at a time, LiveEvery how often at most, and LiveBeat how
	// often a view that does not change is told that it is the newest.
	LiveStreams = 64
	LiveEvery   = time.Second
	LiveBeat    = 15 * time.Second
	// PageBatches is how many batches a view of the page shows.
	PageBatches = 50
)

// Bounds of notifications.
const (
	// NotifyFailures is how many batches of a queue in a row, or runs of a cron, have to fail before somebody is told.
	NotifyFailures = 3
	// NotifyBuffer is how many notices wait in memory to be written to the outbox; past it they are lost, and counted.
	NotifyBuffer = 256
	// NotifyText bounds each text of a notice that comes from the user's code, in bytes.
	NotifyText = 1 << 10
	// NotifyTime bounds one try to send a mail, WebhookTime one call of a webhook, and NotifyStoreTime one call of the outbox.
	NotifyTime      = 30 * time.Second
	WebhookTime     = 10 * time.Second
	NotifyStoreTime = 10 * time.Second
	// NotifyLease is how long a node has for one try before another one may make it: longer than any try takes.
	NotifyLease = 2 * time.Minute
	// NotifyRetryFirst and NotifyRetryMax are the waits between two tries, doubling. After NotifyAge a notice is given up.
	NotifyRetryFirst = 30 * time.Second
	NotifyRetryMax   = time.Hour
	NotifyAge        = 24 * time.Hour
	// NotifyEvery is the pause between two looks at the outbox, for what other nodes left behind, and at the ages of queues.
	NotifyEvery = time.Minute
	// NotifyStopTime is how long a stop waits for notices to be written to the outbox.
	NotifyStopTime = 2 * time.Second
	// KeptNotices is how many notices the outbox keeps; the oldest go first.
	KeptNotices = 10_000
	// MaxRecipients is the most addresses that notices are mailed to, MaxWebhooks the most webhooks.
	MaxRecipients = 20
	MaxWebhooks   = 10
)

// What "celld check" judges a machine by.
const (
	// DiskWarn is the free space of the data folder's disk, in bytes, below which it warns; below DiskReserve it fails.
	DiskWarn = 4 << 30
	// ClockWarn and ClockFail are how far the clocks of the machine and of a database may be apart.
	ClockWarn = 2 * time.Second
	ClockFail = time.Minute
	// FilesWarn and FilesFail are the limits of open files below which it warns and fails.
	FilesWarn = 16_384
	FilesFail = 1_024
	// CheckTime is how long one look at a program or a database may take.
	CheckTime = 20 * time.Second
)
