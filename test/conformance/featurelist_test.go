package conformance_test

// areas are the features of the page, from the call of a producer to what an operator does.
var areas = []area{
	{"Sending", []feature{
		{name: "`send(body, options)` resolves when the message is on disk", of: "CRJ", state: works, cases: "send-commit", tests: "`TestKills`"},
		{name: "`sendBatch(messages, options)` takes any iterable, all or nothing", of: "CRJ", state: works, cases: "limit-batch limit-batch-full send-stalled"},
		{
			name: "content types `json`, `text`, `bytes`, `v8`; `json` is the default", of: "C", state: works, cases: "types-json types-text types-v8 limit-body",
			note: "A body that is no JSON (a function, a symbol) is refused instead of being stored.",
		},
		{
			name: "`bytes` arrives as a `Uint8Array`", of: "C", state: works, cases: "types-bytes",
			note: "As on Cloudflare; local simulators hand over an `ArrayBuffer`.",
		},
		{name: "cloned bodies by default before 2024-03-18 (`queues_json_messages`)", of: "C", state: works, cases: "form-service-worker"},
		{name: "`delaySeconds`, 0 to 86,400, of a message, of a `sendBatch` and of a binding", of: "CJR", state: works, cases: "send-delay send-batch-delay limit-delay limit-batch-delay"},
		{
			name: "`delivery_delay` of a producer", of: "J", state: works, cases: "send-binding-delay",
			note: "Cloudflare has ignored the key since 2025; there the delay is a setting of the queue.",
		},
		{
			name: "errors read `cause (code)`", of: "C", state: differs, cases: "limit-message limit-batch limit-delay",
			note: "The codes of Cloudflare's table, whatever the compatibility date. `error.code` holds the code too, as text, and messages name the message of a batch that is wrong.",
		},
		{
			name: "a message has at most 128 KB, a `sendBatch` 100 messages and 256 KB", of: "CRJ", state: works,
			cases: "limit-message limit-message-runlot limit-bytes limit-batch limit-batch-full limit-batch-runlot",
			note:  "KB is 1,000 bytes in `wrangler` files and 1,024 in `runlot.json`. Only bodies count, no metadata.",
		},
		{name: "256 producer calls of a queue at a time", of: "J", state: works, cases: "send-calls", note: "One more throws with code 10250."},
		{
			name: "limits of an account: 5,000 messages a second, 25 GB, 10,000 queues", of: "C", state: absent,
			note: "The machine is the limit. See [BENCHMARKS.md](BENCHMARKS.md).",
		},
		{
			name: "`QueueLimitError` beyond the operations of a day (`queue_ops_cap`)", of: "R", state: works, cases: "cap-operations",
			note: "See [CONFIGURATION.md](CONFIGURATION.md#bounds-of-a-database). Off where all apps have `wrangler` files.",
		},
		{name: "size cap of the database", of: "R", state: works, cases: "cap-size", note: "`database_full`; what is stored drains."},
		{name: "`metrics()`, and metrics in the answers of `send` and `sendBatch`", of: "C", state: works, cases: "metrics"},
	}},
	{"Receiving", []feature{
		{name: "`queue(batch, env, ctx)` of a module", of: "CRJ", state: works, cases: "batch-full"},
		{name: "`WorkerEntrypoint` classes", of: "C", state: works, cases: "form-entrypoint form-named", tests: "`TestDeliverCallsEveryKindOfHandler`"},
		{name: "service workers, `addEventListener(\"queue\")`", of: "C", state: works, cases: "form-service-worker"},
		{name: "TypeScript without a build step", of: "R", state: works, cases: "settle-error", note: "Types are not checked at build time; run `tsc --noEmit`."},
		{name: "`message.id`, `timestamp`, `body`, `attempts`; `batch.queue`", of: "CRJ", state: works, cases: "form-fields"},
		{
			name: "`batch.metadata.metrics`", of: "C", state: differs, cases: "metrics-batch",
			note: "What is in flight belongs to the backlog until it is settled, so the batch counts itself.",
		},
		{name: "a batch comes when it is full or its time is over, and is never empty", of: "CRJ", state: works, cases: "batch-*"},
		{
			name: "`max_concurrency` 1 to 250", of: "CJ", state: works, cases: "serial three most-together",
			tests: "`TestDeclaredConcurrencyIsReachedAndNeverExceeded`", note: "`maxConcurrency` in `runlot.json`.",
		},
		{
			name: "concurrency by itself, up to 250", of: "C", state: works, cases: "automatic", tests: "`TestAutomaticConcurrency`",
			note: "Cloudflare's formula is not published; ours is in [concurrency.md](concurrency.md).",
		},
		{
			name: "a handler has 15 minutes", of: "C", state: works, cases: "handler-time",
			note: "In `runlot.json` it has the batch timeout and 30 s, as the Runlot document says. Then it is cancelled and the batch is a `timeout`.",
		},
		{
			name: "30 s of processor time (`limits.cpu_ms`)", of: "C", state: differs, cases: "loss-loop loss-others",
			note: "There is no limit of processor time and the key is ignored with a warning. A handler that blocks its thread for some 15 s is killed.",
		},
		{name: "128 MB of memory", of: "C", state: differs, cases: "loss-crash", note: "A process has a heap of 512 MiB; what exceeds it ends the process, and it starts again."},
		{
			name: "order, deduplication", of: "CRJ", state: works, tests: "`TestOldestVisibleFirst`",
			note: "Neither is promised, as on Cloudflare. Messages are handed out oldest first; retries, delays and concurrency change that. Two sends are two messages.",
		},
	}},
	{"Settling and retries", []feature{
		{name: "a return acks, a throw retries what is not acked", of: "CRJ", state: works, cases: "settle-return settle-throw settle-swallow"},
		{name: "`ack()`, `retry()`: of the two, the first counts", of: "CRJ", state: works, cases: "settle-retry settle-first-ack settle-first-retry"},
		{name: "`ackAll()`, `retryAll()`, and how they combine with single calls", of: "CJ", state: works, cases: "settle-ack-all settle-retry-all settle-first-* settle-ack-retry-all settle-retry-ack-all settle-matrix", tests: "`TestEverySequenceOfSettleCalls`"},
		{name: "an ack before a throw counts", of: "CJ", state: works, cases: "settle-ack-throw"},
		{
			name: "`waitUntil` belongs to the batch, unless `queue_consumer_no_wait_for_wait_until`", of: "C", state: works,
			cases: "settle-wait-until settle-reject settle-nowait settle-nowait-throw", tests: "`TestWaitUntilIsAwaitedUnlessTheFlagSaysNo`",
		},
		{name: "`retry({ delaySeconds })`, then that of `retryAll`, then `retry_delay`; an explicit 0 beats all", of: "CRJ", state: works, cases: "delay-zero delay-own delay-all delay-consumer runlot-own-backoff"},
		{name: "a delay out of range in a handler", of: "C", state: works, cases: "delay-most delay-least", note: "It is cut to 0 to 86,400 s, and the record of the batch warns."},
		{
			name: "back-off of 10 s, doubling, at most an hour", of: "R", state: works, cases: "settle-error runlot-backoff-steps", tests: "`TestRetryDelay`",
			note: "In `runlot.json`. In `wrangler` files a retry without a delay comes at once, as on Cloudflare.",
		},
		{name: "`max_retries`, 3 by default, at most 100", of: "CJ", state: works, cases: "dead dead-asked drop drop-once"},
		{
			name: "`maxRetries`, 3 by default, at most 10; 0 needs a `deadLetterQueue`", of: "R", state: works, cases: "runlot-zero-retries dead-once",
			note: "0 without one is read as 3, and the start says so.",
		},
		{
			name: "dead-letter queues", of: "CRJ", state: works, cases: "dead dead-asked dead-once dead-formats dead-cycle",
			note: "The same id, body and send time; attempts begin again. The queue exists without being declared. A queue cannot be its own.",
		},
		{name: "without one, a message out of retries is deleted", of: "CRJ", state: works, cases: "drop drop-once"},
		{
			name: "at least once: a process that dies, a redeploy or a killed program loses nothing", of: "CRJ", state: works,
			cases: "loss-crash loss-loop loss-reload", tests: "`TestKills`",
			note: "No retry is spent by it. On Cloudflare an invocation that dies spends one.",
		},
		{
			name: "a message that kills its process", of: "C", state: differs, cases: "loss-poison loss-mire",
			note: "It is delivered alone after two losses, and is out of retries on its own. On Cloudflare, by what its documentation says of retries, it takes its batch along until the retries of all are spent.",
		},
		{
			name: "a body that cannot be decoded", of: "C", state: differs, cases: "loss-undecodable",
			note: "It fails alone. By the source of workerd, the whole batch fails on Cloudflare.",
		},
		{
			name: "retention of 4 days, or 60 s to 14 days", of: "CJ", state: differs, tests: "`TestRetention`",
			note: "`retention` of a consumer in `runlot.json`; always 4 days in `wrangler` files, where Cloudflare has a setting of the queue.",
		},
	}},
	{"Configuration", []feature{
		{
			name: "`wrangler.json`, `.jsonc` and `.toml` with `env` sections", of: "CJ", state: works, cases: "types-*", tests: "`TestGolden`",
			note: "See [CONFIGURATION.md](CONFIGURATION.md).",
		},
		{name: "`runlot.json`", of: "R", state: works, cases: "runlot-*", tests: "`TestGolden`; `TestSchemaAgrees`"},
		{name: "unknown keys are refused", of: "CJ", state: works, tests: "`TestGolden`", note: "All at once, with line, column and what was probably meant."},
		{
			name: "queues are created with `wrangler queues create`", of: "C", state: differs, cases: "dead-once",
			note: "A queue exists as soon as a file names it. `queue` of a producer cannot be left out.",
		},
		{name: "a queue has one consumer", of: "CRJ", state: works, cases: "share-one-consumer", tests: "`TestScripts`", note: "A second one is refused, and the first is named."},
		{
			name: "producer and consumer in different apps", of: "CR", state: works, cases: "loss-crash loss-loop loss-poison", tests: "`TestScripts`",
			note: "Apps that name the same database share its queues. The celld document has no such thing.",
		},
		{name: "a queue keeps its messages without a consumer, until one is deployed", of: "CR", state: works, cases: "loss-undecodable share-no-consumer"},
		{
			name: "pull consumers (`type: \"http_pull\"`)", of: "C", state: works, tests: "`TestGolden`, `TestPullAcrossARestart`",
			note: "In configuration files of both dialects too; see [CONFIGURATION.md](CONFIGURATION.md#pull-consumers).",
		},
		{name: "`remote: true`, `visibility_timeout_ms` of a handler", of: "C", state: differs, tests: "`TestGolden`", note: "Ignored with a warning."},
		{name: "secrets in `.dev.vars` and `.env`", of: "C", state: works, cases: "settle-wait-until", tests: "`TestGolden`; `TestSecretFiles`"},
		{name: "`queues` in local development", of: "CR", state: works, cases: "share-reload-alone", tests: "`TestScripts`", note: "`runlot dev` runs the real engine, with messages that survive a restart; several apps in one process."},
		{
			name: "a new version takes over without a refused request", of: "CR", state: works, cases: "loss-reload",
			note: "What is in flight is finished or delivered again.",
		},
		{
			name: "deploy, versions and rollback", of: "CRJ", state: works, tests: "`TestADeployBreaksNoRequest`; `TestDeployRollBackAndComeBack`, `TestWranglerDeploys`",
			note: "With `runlot` or with [`wrangler`](#wrangler): what either deploys is one list of versions, and each rolls back the other's.",
		},
		{name: "parked apps that a message wakes", of: "R", state: works, tests: "`TestAnIdleAppIsParked`", note: "At once, not at the next of several minutes. In `celld`; `--park-after`."},
	}},
	{"The database", []feature{
		{
			name: "messages are rows in your database, in the schema `runlot_queue`", of: "R", state: works, cases: "database-role", tests: "`TestViewOfMessages`",
			note: "They come back with a restore. `runlot pg shell` is `psql` on them, `runlot pg url` the address for other clients.",
		},
		{
			name: "enqueue in a transaction of your own", of: "R", state: works, cases: "sql-* database-*",
			note: "`runlot_queue.send()` from any client, or from a Worker through `env.DATABASE`. Cloudflare has nothing like it.",
		},
		{name: "Hyperdrive", of: "C", state: differs, cases: "database-postgres database-pg", note: "One binding, to the database that holds the queues; no pooling or caching."},
	}},
	{"Other bindings and events", []feature{
		{
			name: "cron triggers, fan out from a `scheduled` handler", of: "CRJ", state: works, cases: "cron-*", tests: "`TestAgainstTheMinutes`; `TestSimulation`",
			note: "Five fields in UTC, as Cloudflare has them. A run that fails is tried again; two runs of an app never overlap. See [CONFIGURATION.md](CONFIGURATION.md#crons).",
		},
		{
			name: "D1", of: "CJ", state: differs, cases: "d1-*", tests: "`TestKill`, `TestApply`",
			note: "A SQLite file of the node behind Cloudflare's own client. There is one copy, so sessions need none of their bookmarks; `rows_read` and `rows_written` are estimates.",
		},
		{
			name: "KV", of: "CJ", state: differs, cases: "kv-*", tests: "`TestModel`, `TestWorkerd`",
			note: "A SQLite file of the node behind Cloudflare's own client. Every read sees the last write, everywhere and at once, so `cacheTtl` is accepted without an effect; a write is answered when it is on the disk.",
		},
		{
			name: "Durable Objects", of: "CJ", state: differs, cases: "objects-*", tests: "`TestDurableObjects`, `TestNoCallIsLostOverDeployments`, `TestNeverTwo`",
			note: "workerd's own, with SQL, alarms and WebSockets, on the disk of the node; classes of the same app. A deployment ends the old process before it starts the new one, while requests wait; connections end with it. Such an app is not parked. Deployed migrations stay, and a version from before one cannot be rolled back to.",
		},
		{
			name: "R2", of: "CJ", state: differs, cases: "r2-*", tests: "`TestBucketModel`, `TestKilledPut`, `TestR2OnWorkerd`, `TestR2OnS3`",
			note: "Files of the node, or [an S3 store](OPERATING.md#r2-buckets-in-an-s3-store), behind Cloudflare's own client. A put that has returned is on the disk. There is one storage class, and no encryption by keys of the caller's (`ssecKey`).",
		},
		{name: "Workflows, service bindings and all others", of: "CJ", state: absent, note: "Refused with its place."},
		{
			name: "R2 event notifications", of: "C", state: differs, tests: "`TestEventsWaitWithTheChange`, `TestEventsAreTold`; `TestScripts` (r2)",
			note: "Rules by prefix and suffix, made with `runlot r2 notification` or with `wrangler`; the messages have Cloudflare's form. There are no lifecycle rules, so no `LifecycleDeletion`, and the binding copies nothing, so no `CopyObject`.",
		},
		{
			name: "event subscriptions", of: "C", state: differs, tests: "`TestWranglerSubscriptions`, `TestFactsRaiseEvents`, `TestDeadLettersAreTold`",
			note: "Of scripts (`workers.script`, or `workersBuilds.worker` as wrangler calls it: `version.uploaded`, `version.deployed`, `version.rolled_back`, `script.deleted`) " +
				"and of dead letters (`queues.queue`, which only Runlot has: `message.dead_lettered`). Every other source is refused by its name. The messages have Cloudflare's form.",
		},
		{
			name: "`fetch()` and `connect()` reach public addresses only", of: "C", state: works, cases: "outbound-*",
			note: "In `celld`, unless `--allow-private`. `runlot dev` reaches private ones too.",
		},
	}},
	{"Operating", []feature{
		{
			name: "the HTTP API: queues, push, peek, purge, pause", of: "C", state: differs, tests: "`TestMessagesThroughTheAPI`, `TestMessages`",
			note: "`celld` has them in Cloudflare's shapes, see [below](#cloudflares-http-api), and under `/v1` in its own with what only it has; `GET /v1/openapi.json` describes those.",
		},
		{
			name: "list of queues with depth, dead letters and last batch (`runlot queue`)", of: "CR", state: works, tests: "`TestOverview`; `TestScripts` (queue)",
			note: "On `celld`, and of a project that `runlot dev` runs, in its folder.",
		},
		{
			name: "peek", of: "CR", state: works, tests: "`TestPeek`; `TestMessagesThroughTheAPI`; `TestScripts` (queue)",
			note: "`runlot queue peek`; in SQL `select * from runlot_queue.messages where queue = 'jobs' limit 10`.",
		},
		{
			name: "pause and resume delivery", of: "C", state: works, tests: "`TestPauseAndResume`; `TestScripts` (queue)",
			note: "`runlot queue pause` and `resume`; it lasts over restarts and deployments.",
		},
		{
			name: "purge", of: "CR", state: works, tests: "`TestPurge`; `TestMessagesThroughTheAPI`; `TestScripts` (queue)",
			note: "`runlot queue purge`. What is in flight finishes.",
		},
		{
			name: "deletion of a queue", of: "CR", state: works, tests: "`TestARemovedQueueIsGone`; `TestSendsAgainstARemoval`; `TestARemovalWaits`; `TestScripts` (queue)",
			note: "`runlot queue remove`, with all that it holds; refused while a running app names it.",
		},
		{
			name: "redrive of dead letters", of: "R", state: works, tests: "`TestRedrive`; `TestARedriveStopsWithItsCaller`; `TestScripts` (queue)",
			note: "`runlot queue redrive`: back to where each came from, or `--to` another; ids stay.",
		},
		{
			name: "search, and what is done to all that match", of: "R", state: works, tests: "`TestSearch`; `TestBulk`; `TestScripts` (bulk)",
			note: "`--filter` of `runlot queue peek`, `redrive`, `delete` and `retry`; in the background, with progress.",
		},
		{
			name: "operation counts, warned at 90 %", of: "CR", state: differs, cases: "cap-operations", tests: "`TestCapSurvivesARestart`",
			note: "A line in the output and no mail. `select * from runlot_queue.usage_by_day`. Counted as on Cloudflare, by started 64,000 bytes.",
		},
		{
			name: "records of batches: outcome, counts, error with its place in the source", of: "R", state: works, cases: "record settle-error handler-time",
			note: "`select * from runlot_queue.batches`: the last 10,000 of each queue, for 7 days.",
		},
		{name: "mail after three failed batches", of: "R", state: absent, note: "Watch the log of `celld`."},
		{name: "dashboard, GraphQL metrics, audit logs", of: "CR", state: absent, note: "Logs of Workers are in the output of `runlot dev`, in the log of `celld` and in `wrangler tail`; `runlot events` lists who deployed what."},
	}},
	apiCalls, wranglerCommands,
}

const pageHead = `# Compatibility

<!-- Generated from test/conformance (featurelist_test.go, peernotes_test.go and the cases); run "make generate". -->

What there is of Cloudflare Queues, and of the two documents that Runlot was built from, for whoever thinks about moving. The
calls, the batch and the rules of ack and retry are Cloudflare's; what surrounds them is a folder and a PostgreSQL instead
of an account. ` + "`runlot check`" + ` tells of your own project what would have to change, with file, line and column.

The column *of* says who describes the feature: **C** is Cloudflare's documentation, **R** the Runlot document, **J** the
celld document. *Shown by* names cases of ` + "`make conformance`" + `, which run on the real workerd and PostgreSQL, and test functions
where a case cannot show it. [The cases](#cases) are at the end.

`

const peerHead = `
## The same cases elsewhere

` + "`make conformance-peers`" + ` runs the same Workers on two other implementations and holds them to what a handler and a producer
see. It fails at a difference that is not listed here, and at one that is listed and gone. It is where a mistake of ours
would show: so far there is no rule on which both and Cloudflare's documentation agree against Runlot.
`

const caseHead = `
## Cases

Each has at least one named wrong behaviour that its check rejects; ` + "`go test -v ./test/conformance`" + ` prints them.

| case | rule | source |
|---|---|---|
`
