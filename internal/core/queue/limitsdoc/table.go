package main

import (
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/span"
)

// limit is one row: a constant of core/queue, what it counts (empty for a duration, which says so itself) and whom or
// what it protects.
type limit struct {
	name     string
	value    any
	unit     string
	protects string
}

// section is one table of the page.
type section struct {
	title  string
	intro  string
	limits []limit
}

// perDialect is a row whose value depends on the dialect.
type perDialect struct {
	name     string
	value    func(queue.Dialect) string
	protects string
}

// connectionsUnit is what counts of connections are in.
const connectionsUnit = "connections"

var dialects = []perDialect{
	{"MessageBytes", func(d queue.Dialect) string { return size(queue.LimitsOf(d).MessageBytes) }, "the database and every reader: the largest serialized body of one message"},
	{"BatchBytes", func(d queue.Dialect) string { return size(queue.LimitsOf(d).BatchBytes) }, "memory: the sum of the bodies of one `sendBatch` call"},
	{"MaxRetries", func(d queue.Dialect) string { return number(queue.LimitsOf(d).MaxRetries) }, "the consumer's other messages: the most retries that a consumer may name"},
	{"DefaultBackoff", func(d queue.Dialect) string { return backoff(queue.LimitsOf(d).DefaultBackoff) }, "what the handler calls: the wait before a retry of a consumer that names none"},
	{"DailyOperations", func(d queue.Dialect) string {
		if n := queue.LimitsOf(d).DailyOperations; n > 0 {
			return number(int(n)) + " a database"
		}
		return "none"
	}, "the database and the bill: operations a day; sends beyond it fail with `queue_ops_cap` until 00:00 UTC"},
	{"HandlerTime", func(d queue.Dialect) string {
		if d == queue.Wrangler {
			return span.Text(queue.WranglerHandlerTime)
		}
		return "batch timeout + " + span.Text(queue.DeliveryGrace)
	}, "the queue: a handler that never ends; it is cancelled and the batch recorded as `timeout`"},
}

const (
	bytesUnit = "bytes"
	filesUnit = "files"
	records   = "records"
	messages  = "messages"
	mebibytes = "MiB"
	levels    = "levels"
	notices   = "notices"
	calls     = "calls"
	runs      = "runs"
)

var sections = append([]section{
	{
		title: "Messages, producers and consumers",
		intro: "What an app can declare and send. Both dialects share these.",
		limits: []limit{
			{"MaxDelay", queue.MaxDelay, "", "the database: the longest delay of a send or a retry"},
			{"MaxSendBatch", queue.MaxSendBatch, messages, "memory: one `sendBatch` call"},
			{"MaxBatchSize", queue.MaxBatchSize, messages, "the worker process: one delivered batch"},
			{"DefaultBatchSize", queue.DefaultBatchSize, messages, "a consumer that names no batch size"},
			{"MaxBatchTimeout", queue.MaxBatchTimeout, "", "the first message of a partial batch: the longest wait for company"},
			{"DefaultBatchTimeout", queue.DefaultBatchTimeout, "", "a consumer that names no batch timeout"},
			{"DefaultMaxRetries", queue.DefaultMaxRetries, "retries", "a consumer that names no number of retries"},
			{"MaxConcurrency", queue.MaxConcurrency, "batches", "the worker process: batches of one queue at the same time"},
			{"MaxProducerCalls", queue.MaxProducerCalls, calls, "memory and the other producers: calls under way at a time, per queue; the next one throws with code 10250"},
			{"MinRetention", queue.MinRetention, "", "the user: a shorter setting would delete what no consumer could have seen"},
			{"DefaultRetention", queue.DefaultRetention, "", "the disk: how long a message stays unsettled"},
			{"MaxRetention", queue.MaxRetention, "", "the disk: the longest retention that a queue may have"},
			{"MaxQueueName", queue.MaxQueueName, bytesUnit, "tools and metrics labels: the longest queue name"},
			{"OperationBytes", queue.OperationBytes, bytesUnit, "the operation count: what one operation pays for, a part counts as a whole"},
			{"LossesBeforeAlone", queue.LossesBeforeAlone, "lost deliveries in a row", "a poison message's neighbours: from then on a message is delivered alone"},
			{"LossesAlone", queue.LossesAlone, "further lost deliveries, alone", "the worker process: from then on a loss spends a retry"},
		},
	},
	{
		title: "Engine",
		intro: "Memory, group commits and waits inside a node. They are not settings.",
		limits: []limit{
			{"SendTimeout", queue.SendTimeout, "", "the caller: how long a send waits for its commit before it fails with code 10250"},
			{"GroupRows", queue.GroupRows, messages, "latency: one group commit of sends"},
			{"GroupBytes", queue.GroupBytes, bytesUnit, "memory and latency: bodies of one group commit of sends"},
			{"GroupWaiting", queue.GroupWaiting, bytesUnit, "memory: sends that wait for a group commit, per database; past it a send waits its turn"},
			{"SettleRows", queue.SettleRows, messages, "latency: one group commit of settlements"},
			{"LaneBytes", queue.LaneBytes, bytesUnit, "memory: what one queue holds ready to be delivered"},
			{"LaneRows", queue.LaneRows, messages, "memory: the same, counted"},
			{"StoreLaneBytes", queue.StoreLaneBytes, bytesUnit, "memory: what all queues of one database hold together"},
			{"DueRows", queue.DueRows, messages, "memory: delayed messages that one queue holds; the rest stay in the database"},
			{"ReadRows", queue.ReadRows, messages, "memory: one read from the store"},
			{"ReadBytes", queue.ReadBytes, bytesUnit, "memory: bodies of one read from the store"},
			{"InboxRows", queue.InboxRows, messages, "latency of sends: one drain of what SQL enqueued"},
			{"InboxEvery", queue.InboxEvery, "", "the database: the pause between two looks at an empty inbox"},
			{"RowOverhead", queue.RowOverhead, bytesUnit, "memory: added to the body's size wherever a message's memory is counted"},
			{"StoreRetryFirst", queue.StoreRetryFirst, "", "a database that does not answer: the first wait before another try"},
			{"StoreRetryMax", queue.StoreRetryMax, "", "the same: the longest wait"},
			{"LaneReaders", queue.LaneReaders, "reads", "the database: reads of waiting messages at a time, per database"},
			{"StoreReaders", queue.StoreReaders, connectionsUnit, "the database: connections that read, per database"},
			{"SeqReserve", queue.SeqReserve, "", "restarts: how far ahead of the clock sequence numbers are reserved"},
			{"SeqReserveIdle", queue.SeqReserveIdle, "", "the same, for a look at the inbox while nobody sends"},
			{"MarksEvery", queue.MarksEvery, "", "the database: the pause between two records of how far queues are settled"},
			{"ExpireRows", queue.ExpireRows, messages, "latency: one step of deleting what outlived its retention"},
			{"ExpireEvery", queue.ExpireEvery, "", "the database: the pause between two looks at a queue that holds messages"},
			{"ExpirePause", queue.ExpirePause, "", "deliveries: the pause between two steps while there is more to delete"},
			{"UsageEvery", queue.UsageEvery, "", "the database: how long counted deliveries wait in memory; a crash forgets at most these"},
			{"UsageDays", queue.UsageDays, "days kept", "the database: how long the operation counts of a day are kept"},
			{"OperationsWarning", queue.OperationsWarning, "percent", "the operator: the part of the daily cap at which a warning comes"},
			{"SpaceEvery", queue.SpaceEvery, "", "the database: the pause between two looks at the space of one with a bound"},
			{"SpacePause", queue.SpacePause, "", "the same: the shortest pause"},
			{"CompactEvery", queue.CompactEvery, "", "the database: the pause between two tries to give back the space of deleted messages while it is full"},
			{"SizeMargin", queue.SizeMargin, bytesUnit, "settling: how far below its size cap a database takes no more sends"},
			{"SizeMarginPart", queue.SizeMarginPart, "percent of the cap", "small size caps: the same, at most"},
			{"MinSizeCap", queue.MinSizeCap, bytesUnit, "the operator: a lower size cap would refuse every send"},
			{"DiskReserve", queue.DiskReserve, bytesUnit, "settling: the free space of the embedded PostgreSQL's disk from which on it takes no more sends"},
			{"PeekRows", queue.PeekRows, messages, "memory: one page that an operator looks at"},
			{"PeekBytes", queue.PeekBytes, bytesUnit, "memory: bodies of one such page"},
			{"OperateIDs", queue.OperateIDs, messages, "memory: those that one call of an operator names"},
			{"DelayedCounted", queue.DelayedCounted, messages, "the database: those delayed that are counted for an overview of a queue; with more it says that it does not know"},
			{"ReasonBytes", queue.ReasonBytes, bytesUnit, "the database: the text that a dead letter, or a message that comes again, keeps of its last failure"},
			{"OperateRows", queue.OperateRows, messages, "latency: one step of a purge or a redrive"},
			{"RemoveTime", queue.RemoveTime, "", "the operator: how long the deletion of a queue waits for transactions that sent to it"},
			{"RemoveLockTime", queue.RemoveLockTime, "", "sends and settlements: how long they wait for such a transaction, each time"},
			{"UndoTime", queue.UndoTime, "", "the database: how long what an operator did to messages can be undone"},
			{"UndoDeleted", queue.UndoDeleted, messages, "the database: those deleted of one queue that are kept to be undone; the oldest go first"},
			{"UndoBytes", queue.UndoBytes, bytesUnit, "the database: the bodies of these"},
			{"UndoMoved", queue.UndoMoved, messages, "the database: those moved or made visible of one queue that are noted to be undone"},
			{"OperateReadTime", queue.OperateReadTime, "", "the database: one read of an operator's call"},
			{"FilterBytes", queue.FilterBytes, bytesUnit, "the database: the text of a filter of messages"},
			{"FilterTerms", queue.FilterTerms, "terms", "the database: the same, in terms"},
			{"SearchRows", queue.SearchRows, messages, "delivery: those that one step of a search looks at"},
			{"SearchBytes", queue.SearchBytes, bytesUnit, "delivery: the bodies that one step of a search looks at"},
			{"SearchTime", queue.SearchTime, "", "delivery: one step of a search in the database"},
			{"SearchLooked", queue.SearchLooked, messages, "the caller: those that one call for a page of matches looks at; the next call goes on behind them"},
			{"CountLooked", queue.CountLooked, messages, "delivery: those that one call to count matches looks at"},
			{"CountMatched", queue.CountMatched, messages, "delivery: the matches after which such a call says that there are more"},
			{"OperationsRunning", queue.OperationsRunning, "", "delivery: those in the background that one instance runs at a time; others wait, and of one queue's all but one"},
			{"OperationsOpen", queue.OperationsOpen, "", "memory: those in the background that run or wait; a call beyond it is refused"},
			{"OperationsKept", queue.OperationsKept, "", "the database: those in the background that ended and are still shown"},
			{"OperationSave", queue.OperationSave, "", "the database: how often the progress of one in the background is stored"},
			{"HistoryRecords", queue.HistoryRecords, "records", "memory: those that the history of one message shows"},
			{"ReleaseTime", queue.ReleaseTime, "", "the operator: how long a broker stopped in haste takes to give its ownership back"},
			{"StoreConnectTime", queue.StoreConnectTime, "", "callers: the opening of a connection to the database"},
			{"StorePingEvery", queue.StorePingEvery, "", "the next owner: the rhythm of the check that the owner's session lives"},
			{"StorePingTime", queue.StorePingTime, "", "a slow database: how long that check waits for an answer"},
			{"StoreAcquireTime", queue.StoreAcquireTime, "", "the operator: how long a node waits for queues that another one holds before it says so"},
			{"HolderPatience", queue.HolderPatience, "", "the operator: how long a celld waits at its start for another one on the same database"},
			{"StoreAcquireEvery", queue.StoreAcquireEvery, "", "the database: the pause between two tries at an ownership that another node holds"},
			{"DispatchBytes", queue.DispatchBytes, bytesUnit, "memory: bodies of all batches of this process between lease and commit"},
			{"DispatchMinBytes", queue.DispatchMinBytes, bytesUnit, "memory: what each batch counts at least, which bounds their number"},
			{"UnsettledPerCall", queue.UnsettledPerCall, "batches for each handler call allowed", "the database: batches of one queue between lease and commit"},
			{"UnsettledMin", queue.UnsettledMin, "batches", "handler time: the same, at least"},
			{"GrowEvery", queue.GrowEvery, "", "the worker process: how long all calls are busy before automatic concurrency allows one more"},
			{"GrowHandlerTimePart", queue.GrowHandlerTimePart, "calls in the handler time", "the worker process: a call that takes longer lets automatic concurrency grow no further"},
			{"AloneTime", queue.AloneTime, "", "other suspects: how long a message suspected of killing its process keeps them out"},
			{"LossBackoffFirst", queue.LossBackoffFirst, "", "a process that dies at every delivery: the first pause of its queue after a lost batch, doubling"},
			{"LossBackoffMax", queue.LossBackoffMax, "", "the same: the longest pause"},
			{"ErrorBackoffFirst", queue.ErrorBackoffFirst, "", "a version that cannot run: the first pause of its queue after an error, doubling"},
			{"ErrorBackoffMax", queue.ErrorBackoffMax, "", "the same: the longest pause"},
			{"SettleGrace", queue.SettleGrace, "", "finished work: how long a stopping dispatcher waits for its last commits, and after it its database; what is not saved then is delivered again"},
		},
	},
	{
		title: "Consumers over HTTP",
		limits: []limit{
			{"DefaultPull", queue.DefaultPull, messages, "whoever pulls: those of a pull that names no number"},
			{"MinVisibility", queue.MinVisibility, "", "the database: the shortest lease of a pulled message"},
			{"DefaultVisibility", queue.DefaultVisibility, "", "other consumers: the lease of a pull that names none"},
			{"MaxVisibility", queue.MaxVisibility, "", "other consumers: the longest lease"},
			{"MaxPullWait", queue.MaxPullWait, "", "connections: how long a pull may wait for a message"},
			{"PullWaiting", queue.PullWaiting, calls + " a database", "connections: pulls that wait at a time"},
			{"PullHeld", queue.PullHeld, messages + " a queue", "memory: those that are pulled and not settled"},
			{"PullHeldBytes", queue.PullHeldBytes, bytesUnit + " a database", "memory: their bodies; a pull that begins below it may go past it"},
			{"PullAnswers", queue.PullAnswers, messages, "memory: acks and retries of one call"},
		},
	},
	{
		title: "Records of batches",
		intro: "What is kept of each batch, in the queue's database. They are not settings.",
		limits: []limit{
			{"RecordsKept", queue.RecordsKept, records, "the disk: what is kept of one queue"},
			{"RecordAge", queue.RecordAge, "", "the same, in time; whichever is less"},
			{"RecordEvery", queue.RecordEvery, "", "the database: how long records are gathered for one write; a crash loses them"},
			{"RecordRows", queue.RecordRows, records, "memory: one write"},
			{"RecordBytes", queue.RecordBytes, bytesUnit, "the same, in bytes"},
			{"RecordLinger", queue.RecordLinger, "", "logs: how long a record waits at least for the last lines of its handler"},
			{"RecordBuffer", queue.RecordBuffer, bytesUnit, "memory: records that are not written yet, per database; past half of it they do not name what was acked, past it they are only counted"},
			{"RecordTime", queue.RecordTime, "", "the writer and readers: a database that does not answer"},
			{"RecordStopTime", queue.RecordStopTime, "", "who waits for the stop: the last writes"},
			{"RecordPruneRows", queue.RecordPruneRows, records, "the database: what one transaction deletes"},
			{"RecordSweepEvery", queue.RecordSweepEvery, "", "the database: the pause between two looks for old records"},
			{"RecordText", queue.RecordText, bytesUnit, "the disk: each text of a record; the rest is cut off"},
			{"RecordStack", queue.RecordStack, bytesUnit, "the disk: the stack of an error"},
			{"RecordWarnings", queue.RecordWarnings, "warnings", "the disk: the warnings of one batch"},
			{"RecordLines", queue.RecordLines, "lines", "the disk: what is kept of what one handler call logged"},
			{"RecordLogBytes", queue.RecordLogBytes, bytesUnit, "the same, in bytes"},
			{"RecordLogBuffer", queue.RecordLogBuffer, bytesUnit, "memory: lines that wait for their record, per database; past it the oldest go"},
			{"RecordPage", queue.RecordPage, records, "memory: one page of a list"},
			{"RecordSettledRows", queue.RecordSettledRows, records, "memory: what one statement reads for the list of settled messages"},
			{"RecordFollow", queue.RecordFollow, records, "memory: what waits for one that follows; past it the oldest are skipped, and counted"},
			{"RecordConnections", queue.RecordConnections, connectionsUnit, "the database: connections that write and read records, per database"},
		},
	},
	{
		title: "Series",
		intro: "The numbers behind charts and metrics: a point of each busy queue every ten seconds in memory, a row a minute in its database. They are not settings.",
		limits: []limit{
			{"SeriesStep", queue.SeriesStep, "", "the processor: the span of a point in memory"},
			{"SeriesMemory", queue.SeriesMemory, "", "memory: how long points stay there"},
			{"SeriesAge", queue.SeriesAge, "", "the disk: how long the minutes of a queue are kept. A queue has a row for each minute in which it was not idle, of about 400 bytes: at most 4 MB for 7 days"},
			{"SeriesQueues", queue.SeriesQueues, "queues", "memory, and whoever collects the metrics: those of a database with numbers of their own; the rest is counted as `other`, without series"},
			{"SeriesRows", queue.SeriesRows, "minutes", "the database: one write"},
			{"SeriesPending", queue.SeriesPending, "minutes", "memory: what waits while the database is away; past it the oldest are lost"},
			{"SeriesPoints", queue.SeriesPoints, "points", "memory: one answer; a step that gives more becomes longer"},
			{"SeriesAutoPoints", queue.SeriesAutoPoints, "points", "the reader: the same where no step is asked for"},
			{"SeriesPruneEvery", queue.SeriesPruneEvery, "", "the database: the pause between two looks for days that are too old"},
			{"SeriesPruneWait", queue.SeriesPruneWait, "", "the database: how long the end of a day waits for who reads it"},
			{"SeriesConnections", queue.SeriesConnections, connectionsUnit, "the database: connections that write and read series, per database"},
			{"SeriesDelayedEvery", queue.SeriesDelayedEvery, "", "the database: how often delayed messages are counted where the memory does not know of all"},
			{"SeriesDelayedQueues", queue.SeriesDelayedQueues, "queues", "the database: those of one database for which it is done at a time"},
			{"MetricsApps", queue.MetricsApps, "apps", "whoever collects the metrics: those with numbers of their own; the rest is counted as `other`"},
			{"MetricsReaders", queue.MetricsReaders, calls, "memory: answers with metrics at a time"},
			{"MetricsTime", queue.MetricsTime, "", "connections: how long one may take"},
		},
	},
	{
		title: "Runtime",
		intro: "Worker processes and the private socket between them and a node. They are not settings.",
		limits: []limit{
			{"DeliveryGrace", queue.DeliveryGrace, "", "the queue: added to the batch timeout for the handler time of `runlot.json`"},
			{"WranglerHandlerTime", queue.WranglerHandlerTime, "", "the queue: the handler time of `wrangler.*`"},
			{"CancelGrace", queue.CancelGrace, "", "the queue: what a cancelled handler may still take before its process is killed"},
			{"ProbeTime", queue.ProbeTime, "", "the deployer: a module that never finishes loading"},
			{"StartTime", queue.StartTime, "", "the queue: the start of a worker process"},
			{"DrainTime", queue.DrainTime, "", "the operator: how long a stopping process may finish what is in flight"},
			{"DevStopTime", queue.DevStopTime, "", "who waits for the stop of a development run: the same there"},
			{"PingEvery", queue.PingEvery, "", "the queue: the watchdog's rhythm"},
			{"PingTime", queue.PingTime, "", "a busy process: how long the watchdog waits for one answer"},
			{"PingMisses", queue.PingMisses, "answers in a row", "the queue: missed, they end a process that is stuck in a loop"},
			{"ResumeAtOnce", queue.ResumeAtOnce, "apps", "the start: apps that celld brings back at a time"},
			{"RestartFirst", queue.RestartFirst, "", "the machine: the first wait before a dead process starts again"},
			{"RestartMax", queue.RestartMax, "", "the same: the longest wait"},
			{"HeapMiB", queue.HeapMiB, mebibytes, "the machine's memory: the V8 heap of one worker process"},
			{"ProcessMiB", queue.ProcessMiB, mebibytes, "the machine's memory: what one worker process has resident, with ArrayBuffers and WebAssembly; over it the process is killed and its deliveries are `lost`"},
			{"MemoryEvery", queue.MemoryEvery, "", "the same: the rhythm at which that is looked at"},
			{"ProcessWallMiB", queue.ProcessWallMiB, mebibytes, "the machine's memory, on Linux: what one worker process sets aside, of which the runtime itself takes 550; an allocation beyond it fails in the worker with a `RangeError`"},
			{"MaxBindingBody", queue.MaxBindingBody, bytesUnit, "memory: the largest body that the private socket reads"},
			{"MaxBindingDiscard", queue.MaxBindingDiscard, bytesUnit, "connections: what is read and thrown away of a body that is too large, so that the refusal arrives"},
			{"MaxResultBody", queue.MaxResultBody, bytesUnit, "memory: the largest answer to a delivery that is read"},
			{"MaxTailBody", queue.MaxTailBody, bytesUnit, "memory: the largest set of log events of one invocation that is read"},
			{"MaxBundle", queue.MaxBundle, bytesUnit, "memory and the disk: the largest bundle"},
			{"RestartReset", queue.RestartReset, "", "the machine: how long a process has to run before its next death counts as the first"},
			{"DrainingVersions", queue.DrainingVersions, "processes", "memory: replaced processes of one app that drain at a time"},
			{"MaxSecret", queue.MaxSecret, bytesUnit, "the start of a process: the longest secret"},
			{"OutputBytes", queue.OutputBytes, bytesUnit, "memory: output of a worker process that is kept to explain its end"},
			{"RuntimeIdle", queue.RuntimeIdle, "", "deliveries: how long an unused connection to a worker process stays open"},
			{"RuntimeConnections", queue.RuntimeConnections, connectionsUnit, "file descriptors: unused connections to one worker process"},
			{"ExceptionWait", queue.ExceptionWait, "", "the queue: how long the result of a failed handler waits for its exception's text"},
			{"LogWait", queue.LogWait, "", "who reads the screen of a development run: how long the line of a batch waits for what its handler logged"},
			{"RecentDeliveries", queue.RecentDeliveries, "deliveries", "memory: ended deliveries of one process whose late logs can be attributed"},
		},
	},
	{
		title: "Public requests",
		intro: "The public address of an app. They are not settings. How long a request and its body take is not bounded: uploads and streams may go on.",
		limits: []limit{
			{"PublicConnections", queue.PublicConnections, connectionsUnit, "file descriptors and memory: what clients hold of one app at a time; one more is answered with status 503"},
			{"OperatorConnections", queue.OperatorConnections, connectionsUnit, "the same, at the address of operators"},
			{"PublicRetryAfter", queue.PublicRetryAfter, "", "the same: when such a client is told to come back (`Retry-After`)"},
			{"PublicRefusalTime", queue.PublicRefusalTime, "", "the same: how long such a client may take to read the answer"},
			{"PublicHeaderTime", queue.PublicHeaderTime, "", "connections: how long the head of a request may take to arrive"},
			{"PublicHeaderBytes", queue.PublicHeaderBytes, bytesUnit, "memory: the longest head of a request; a longer one is answered with status 431"},
			{"TraceSpans", queue.TraceSpans, "spans", "memory: those that wait for the collector of traces; more are dropped"},
			{"TraceExportTime", queue.TraceExportTime, "", "goroutines: how long the collector may take for some of them"},
			{"TraceText", queue.TraceText, bytesUnit, "memory: the longest text of an attribute of a span"},
			{"MaxTraceHead", queue.MaxTraceHead, bytesUnit, "memory: what a traced message carries in front on the private socket"},
			{"PublicIdle", queue.PublicIdle, "", "connections: how long one stays open between two requests"},
		},
	},
	{
		title: "D1 databases",
		intro: "What SQL meets, as on Cloudflare D1, and what protects the node.",
		limits: []limit{
			{"D1Params", queue.D1Params, "parameters", "the parser: values bound to one statement"},
			{"D1SQLBytes", queue.D1SQLBytes, bytesUnit, "the parser: the text of one query"},
			{"D1ValueBytes", queue.D1ValueBytes, bytesUnit, "memory: a string, a BLOB or a row"},
			{"D1Columns", queue.D1Columns, "columns", "the parser: of a table or a result"},
			{"D1Depth", queue.D1Depth, levels, "the stack: how deep an expression nests"},
			{"D1Compound", queue.D1Compound, "terms", "the parser: of a compound SELECT"},
			{"D1Arguments", queue.D1Arguments, "arguments", "the parser: of one function"},
			{"D1Pattern", queue.D1Pattern, bytesUnit, "the processor: a pattern of LIKE or GLOB"},
			{"D1TriggerDepth", queue.D1TriggerDepth, levels, "the stack: how deep triggers call each other"},
			{"D1StatementTime", queue.D1StatementTime, "", "who else calls the database: one statement"},
			{"D1DatabaseBytes", queue.D1DatabaseBytes, bytesUnit, "the disk: one database, unless the node is told another size"},
			{"D1Waiting", queue.D1Waiting, calls, "memory: calls that wait for one database"},
			{"D1WaitTime", queue.D1WaitTime, "", "the caller: the wait for the calls before it"},
			{"D1BusyTime", queue.D1BusyTime, "", "the caller: the wait for another process that writes to the same file"},
			{"D1RequestBytes", queue.D1RequestBytes, bytesUnit, "memory: one call with all its statements and values, as JSON"},
			{"D1RequestsBytes", queue.D1RequestsBytes, bytesUnit, "memory: the calls that are read and run at a time, over all databases of a node"},
			{"D1Running", queue.D1Running, calls, "memory and the processor: databases of a node that run a call at a time"},
			{"D1ResultBytes", queue.D1ResultBytes, bytesUnit, "memory: the rows that one call returns, as JSON"},
			{"D1MemoryBytes", queue.D1MemoryBytes, bytesUnit, "memory: what SQLite holds for one database"},
			{"D1Open", queue.D1Open, "databases", "memory and file descriptors: databases that stay open while nobody calls them"},
			{"D1Operators", queue.D1Operators, "calls", "memory: SQL of operators that runs at a time"},
			{"D1MigrationBytes", queue.D1MigrationBytes, bytesUnit, "memory: a file of SQL that is applied"},
		},
	},
	{
		title: "Scheduled runs",
		intro: "Crons of an app and the runs that they start.",
		limits: []limit{
			{"MaxCrons", queue.MaxCrons, "crons", "the reader: crons of one app, as many as Cloudflare has for an account"},
			{"MaxCronText", queue.MaxCronText, bytesUnit, "the database: the longest cron expression"},
			{"CronTime", queue.CronTime, "", "the app's other crons: a run that takes longer is cancelled and recorded as `timeout`"},
			{"CronLate", queue.CronLate, "", "the user: how long after its time an occurrence may still begin or be tried again; later it is recorded as `missed`"},
			{"CronRetryFirst", queue.CronRetryFirst, "", "what the handler calls: the first wait before a failed run is tried again, doubling"},
			{"CronRetryMax", queue.CronRetryMax, "", "the same: its longest wait"},
			{"CronLease", queue.CronLease, "", "the next node: how long a run belongs to a node that says nothing"},
			{"CronRenewEvery", queue.CronRenewEvery, "", "the database: the rhythm in which a node says that a run goes on"},
			{"CronRenewTime", queue.CronRenewTime, "", "the next node: how long a node that cannot say so lets a run go on"},
			{"CronCheckEvery", queue.CronCheckEvery, "", "punctuality: how long a changed clock of the machine goes unnoticed"},
			{"CronClockBack", queue.CronClockBack, "", "the user: how far a clock may be put back without an occurrence coming again"},
			{"CronMissedCounted", queue.CronMissedCounted, "occurrences", "the processor: missed occurrences that are counted one by one"},
			{"RunRetention", queue.RunRetention, "", "the disk: how long the record of a run is kept"},
			{"RunsKept", queue.RunsKept, runs, "the disk: records of one cron that are kept"},
			{"RunPruneRows", queue.RunPruneRows, runs, "the database: one step of deleting more"},
			{"RunTextBytes", queue.RunTextBytes, bytesUnit, "the disk: each text of a record; the rest of a longer one is not kept"},
			{"CronConnections", queue.CronConnections, connectionsUnit, "the database: connections for crons, per database"},
			{"CronConnectionIdle", queue.CronConnectionIdle, "", "the database: how long an unused one stays open"},
			{"RunBeginTime", queue.RunBeginTime, "", "the caller: how long a run by hand waits for its app to start"},
			{"RunsAnswerTime", queue.RunsAnswerTime, "", "the caller: how long a list of crons or runs waits for the database"},
			{"RunPruneEvery", queue.RunPruneEvery, runs, "the database: runs of an app between two such steps"},
		},
	},
	{
		title: "Configuration and builds",
		intro: "What is read of a project, and watched.",
		limits: []limit{
			{"MaxConfigFile", queue.MaxConfigFile, bytesUnit, "memory: the largest configuration or secrets file"},
			{"MaxConfigDepth", queue.MaxConfigDepth, levels, "the stack: how deep objects and arrays may nest in one"},
			{"MaxProblems", queue.MaxProblems, "problems", "the reader: the most that are listed of one file"},
			{"ShellStatementBytes", queue.ShellStatementBytes, bytesUnit, "memory: the longest statement of `runlot pg shell` without psql"},
			{"ShellRows", queue.ShellRows, "rows", "the same: the most rows of one result that are shown"},
			{"WatchQuiet", queue.WatchQuiet, "", "the builder: how long no file may change before a change is reported"},
			{"WatchWait", queue.WatchWait, "", "the developer: the longest that a change waits"},
			{"WatchFiles", queue.WatchFiles, filesUnit, "the machine: what is watched for changes"},
			{"WatchFolders", queue.WatchFolders, "folders", "the same, folders"},
			{"MaxBuildMessages", queue.MaxBuildMessages, "messages", "the reader: the most errors, and the most warnings, of one build that are shown"},
		},
	},
	{
		title: "Control",
		intro: "What celld keeps of its apps.",
		limits: []limit{
			{"KeptVersions", queue.KeptVersions, "versions", "the disk: what is kept of one app beside its live version"},
			{"KeptEvents", queue.KeptEvents, eventsUnit, "the disk: what was done, by whom"},
			{"OpenVersion", queue.OpenVersion, "", "one deployment of `wrangler` is one version: its crons and consumers come by calls behind the upload"},
			{"MaxDeployMessage", queue.MaxDeployMessage, "characters", "the reader: the message of a version or a deployment"},
			{"MaxSecrets", queue.MaxSecrets, "secrets", "the start of a process: the secrets of one app"},
			{"MaxTokens", queue.MaxTokens, "tokens", "the database: API tokens"},
			{"ControlConnections", queue.ControlConnections, connectionsUnit, "PostgreSQL: those to the database of apps, versions and tokens"},
			{"MaxAPIBody", queue.MaxAPIBody, bytesUnit, "memory: the body of one call of the API"},
			{"MaxUpload", queue.MaxUpload, bytesUnit, "memory and the disk: the body of an upload"},
			{"APIBodyTime", queue.APIBodyTime, "", "connections: how long the body of a call may take to arrive"},
			{"MaxModules", queue.MaxModules, "modules", "the database: the modules of one version"},
			{"RepliesKept", queue.RepliesKept, "", "the database: how long answers are kept for calls that are repeated with the same Idempotency-Key"},
			{"KeptReplies", queue.KeptReplies, "answers", "the database: how many of them; `runlot dev` has a fifth of that in memory"},
			{"MaxReply", queue.MaxReply, bytesUnit, "the database: the largest of them"},
			{"ReplyPruneEvery", queue.ReplyPruneEvery, "calls", "the database: calls between two looks at what is to be forgotten"},
			{"BatchPage", queue.BatchPage, records, "the database: those of one answer that has what their handlers logged too"},
			{"FollowEvery", queue.FollowEvery, "", "the database: how often the command line asks for news while it follows them"},
			{"MaxPage", queue.MaxPage, "entries", "memory: one answer of a list"},
			{"SessionTime", queue.SessionTime, "", "a sign-in to the page"},
			{"SignInTries", queue.SignInTries, "tries", "refused sign-ins to the page from one client address in the time of SignInWindow"},
			{"SignInWindow", queue.SignInWindow, "", "see SignInTries"},
			{"SignInClients", queue.SignInClients, "addresses", "memory: those whose refused sign-ins are counted; beyond it the oldest is forgotten"},
			{"LiveStreams", queue.LiveStreams, "views", "CPU: views of the page that are kept up to date at a time; others say that they are not"},
			{"LiveEvery", queue.LiveEvery, "", "CPU and the database: how often a view of the page is brought up to date at most"},
			{"LiveBeat", queue.LiveBeat, "", "how often a view that does not change hears that it is the newest"},
			{"PageBatches", queue.PageBatches, records, "the database: those of one view of the page"},
		},
	},
	{
		title: "Notifications",
		intro: "What bounds mails and webhooks to operators.",
		limits: []limit{
			{"NotifyFailures", queue.NotifyFailures, "failures", "the reader: batches of a queue, or runs of a cron, that fail in a row before somebody is told"},
			{"NotifyBuffer", queue.NotifyBuffer, notices, "memory: those that wait to be written to the outbox; past it they are lost, and counted"},
			{"NotifyText", queue.NotifyText, bytesUnit, "the reader: each text of a notice that comes from the user's code"},
			{"NotifyTime", queue.NotifyTime, "", "the other notices: one try to send a mail"},
			{"WebhookTime", queue.WebhookTime, "", "the same: one call of a webhook"},
			{"NotifyStoreTime", queue.NotifyStoreTime, "", "the same: one call of the outbox"},
			{"NotifyLease", queue.NotifyLease, "", "the reader: how long a node has for one try before another one may make it"},
			{"NotifyRetryFirst", queue.NotifyRetryFirst, "", "the receiver: the wait after a first failure, doubled after each further one"},
			{"NotifyRetryMax", queue.NotifyRetryMax, "", "the reader: the longest such wait"},
			{"NotifyAge", queue.NotifyAge, "", "the receiver: when a notice that cannot be sent is given up"},
			{"NotifyEvery", queue.NotifyEvery, "", "the database: the pause between two looks at the outbox, and at the ages of queues"},
			{"NotifyStopTime", queue.NotifyStopTime, "", "the stop: how long it waits for notices to be written to the outbox"},
			{"KeptNotices", queue.KeptNotices, notices, "the disk: those that are kept"},
			{"MaxRecipients", queue.MaxRecipients, "addresses", "the mail server: the receivers of mails"},
			{"MaxWebhooks", queue.MaxWebhooks, "webhooks", "the network: the receivers of calls"},
		},
	},
	{
		title: "Check",
		intro: "What `celld check` judges a machine by.",
		limits: []limit{
			{"DiskWarn", queue.DiskWarn, bytesUnit, "the disk of the data folder: with less it warns, with less than `DiskReserve` it fails"},
			{"ClockWarn", queue.ClockWarn, "", "delays and crons: how far the clocks of the machine and of a database may be apart before it warns"},
			{"ClockFail", queue.ClockFail, "", "the same, before it fails"},
			{"FilesWarn", queue.FilesWarn, filesUnit, "connections: the limit of open files below which it warns"},
			{"FilesFail", queue.FilesFail, filesUnit, "the same, below which it fails"},
			{"CheckTime", queue.CheckTime, "", "the reader: how long a look at a program or a database may take"},
		},
	},
}, append(stores, subscriptions)...)
