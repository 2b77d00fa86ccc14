package conformance_test

// apiCalls are the calls of Cloudflare's HTTP API about queues, on the operators' address of celld under
// /client/v4/accounts/local.
var apiCalls = area{"Cloudflare's HTTP API", []feature{
	{
		name: "`GET /queues`, with exact `name` filters and pages; `GET /queues/{id}`", of: "C", state: differs, tests: "`TestQueuesAreListed`, `TestAQueueIsDescribed`",
		note: "Queues of all databases are listed, those of `default` first. A name means the queue of `default`, or the only one of that name; `DATABASE/NAME` means any. Where a name means several, code 11003. `modified_on` is `created_on`.",
	},
	{
		name: "`PATCH` and `PUT /queues/{id}`: `delivery_delay`, `message_retention_period`, `delivery_paused`", of: "C", state: differs, tests: "`TestSettings`, `TestDeliveryDelay`",
		note: "A queue cannot be renamed. The retention beats the consumer's; `PUT` without one gives the consumer its say again. The delay is of messages for which neither the call nor the binding names one; `runlot_queue.send` names its own.",
	},
	{
		name: "`POST` and `GET /queues/{id}/purge`", of: "C", state: works, tests: "`TestPurge`",
		note: "What is in flight is purged too: it may finish, and is not delivered again. After a restart it is not known when the last purge began.",
	},
	{name: "`GET /queues/{id}/metrics`", of: "C", state: works, tests: "`TestMessages`"},
	{
		name: "`POST /queues/{id}/messages` and `/messages/batch`", of: "C", state: works, tests: "`TestMessages`",
		note: "`content_type` may be `bytes` too, with a body in base64. A database that is full answers 10251, one whose operations of the day are used up 10253.",
	},
	{
		name: "`POST /queues/{id}/messages/peek` and `/messages/purge`", of: "C", state: works, tests: "`TestMessages`",
		note: "Delayed messages and those in flight are shown too. What is being delivered is not purged, and named in `warnings`.",
	},
	{
		name: "`POST /queues`", of: "C", state: works, tests: "`TestCreateQueue`",
		note: "In the database `default`; `DATABASE/NAME` makes it in another that is in use.",
	},
	{
		name: "`DELETE /queues/{id}`", of: "C", state: works, tests: "`TestCreateQueue`; `TestARemovedQueueIsGone`; `TestSendsAgainstARemoval`; `TestRemoveWaitsForOpenTransactions`",
		note: "One that a live version names, or a rule of an R2 bucket, is refused with code 10064, naming who uses it. A queue that is made anew under the name has the same id, and sees nothing of the first.",
	},
	{name: "`GET /queues/{id}/consumers`, `GET /queues/{id}/consumers/{id}`", of: "C", state: works, tests: "`TestAQueueIsDescribed`"},
	{
		name: "`POST`, `PUT`, `DELETE` of consumers that are a script", of: "C", state: works, tests: "`TestWorkerConsumers`, `TestPullAcrossARestart`",
		note: "The change is a new version of the script with the code of the live one, or belongs to the live one for five minutes from its upload through this API: a rollback takes it back, and the next deployment replaces it by what its configuration says. The script and the queue are of one database.",
	},
	{
		name: "`POST`, `PUT`, `DELETE` of consumers of the type `http_pull`", of: "C", state: works, tests: "`TestPullConsumer`",
		note: "A setting of the queue. A version that would consume the queue is refused until it is removed.",
	},
	{
		name: "`POST /queues/{id}/messages/pull`", of: "C", state: works, tests: "`TestPullConsumer`, `TestALeaseRunsOut`, `TestCrowd`",
		note: "`visibility_timeout_ms`, and `visibility_timeout` in milliseconds too. `wait_ms`, which Cloudflare has not, waits up to 30 s for a message. The last delivery is the one after `max_retries` retries, as for handlers. A paused queue answers 409 with code 10252. `CF-sourceMessageSource` is not told.",
	},
	{
		name: "`POST /queues/{id}/messages/ack`", of: "C", state: works, tests: "`TestLateAnswers`, `TestARestart`, `TestKillsUnderPullers`",
		note: "An ack is good however late it comes, also after a restart and while another holds the message; a retry only while its lease holds. `warnings` say what was late, gone or foreign. At most 1,000 leases a call.",
	},
	{
		name: "`POST`, `GET`, `PATCH`, `DELETE` of `/event_subscriptions/subscriptions`", of: "C", state: differs, tests: "`TestWranglerSubscriptions`, `TestSDK`",
		note: "With pages, `queue_id`, `order` and `direction`. A source is `workers.script` with a `script_name` (or none, for all), `workersBuilds.worker` with a `worker_name`, or `queues.queue` with a `queue_id`. " +
			"`PATCH` changes all but the source.",
	},
}}
