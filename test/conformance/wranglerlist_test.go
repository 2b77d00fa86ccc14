package conformance_test

// wranglerCommands are those of wrangler 4.86.0, which a test runs on a celld as they are.
var wranglerCommands = area{"wrangler", []feature{
	{name: "`whoami`", of: "CJ", state: works, tests: "`TestWranglerDeploys`", note: "With a token in CLOUDFLARE_API_TOKEN; `runlot wrangler-env` writes the environment. There is no `wrangler login`."},
	{
		name: "`deploy`, `versions upload`", of: "CJ", state: differs, tests: "`TestWranglerDeploys`, `TestWranglerStores`, `TestWranglerVersions`",
		note: "Bindings to queues, D1, KV, R2, Durable Objects with their migrations, one Hyperdrive, vars and secrets; any other is refused by its name. " +
			"Crons and consumers belong to a version here: those that are set within five minutes of an upload, as `deploy` does, belong to the version that it made. " +
			"A new version begins with those of the live one, as on Cloudflare. The address is printed as https and with `?.workers.dev` behind it.",
	},
	{
		name: "`versions list`, `view` and `deploy`, `deployments list` and `status`", of: "CJ", state: differs, tests: "`TestWranglerDeploys`, `TestWranglerVersions`",
		note: "A deployment is one version for all requests; a split is refused. Tags are not kept, messages are.",
	},
	{
		name: "`rollback`", of: "CJ", state: differs, tests: "`TestWranglerDeploys`, `TestWranglerVersions`",
		note: "Crons and consumers become those of the version. Secrets stay as they are. A version from before a migration of Durable Objects cannot be gone back to.",
	},
	{
		name: "`secret put`, `list`, `delete` and `bulk`", of: "CJ", state: differs, tests: "`TestWranglerDeploys`",
		note: "Secrets are of the script and not of a version: the live one is started again with them, and no version is made.",
	},
	{
		name: "`versions secret put`, `bulk`, `list` and `delete`", of: "CJ", state: differs, tests: "`TestWranglerVersions`",
		note: "The change waits with the version that it makes, and is one of the script from the version's first deployment on.",
	},
	{
		name: "`tail`", of: "CJ", state: differs, tests: "`TestWranglerTail`, `TestTail`, `TestWatch`",
		note: "`pretty` and `json`; `--status`, `--method`, `--header`, `--search`, `--sampling-rate` and `--version-id`. `--ip` is refused: addresses of clients are not kept. " +
			"What the console is given is told as the text that it writes, in one value. A handler whose process is killed has no event. " +
			"At most 10 follow a script, for 6 hours each; one that reads too slowly misses events, and is told how many.",
	},
	{name: "`triggers deploy`", of: "CJ", state: differs, tests: "`TestWranglerDeploys`", note: "Behind five minutes from the upload it makes a version. Crons and consumers. Routes and custom domains are taken and lead nowhere, though `wrangler` prints them: an app is reached under its name, a proxy in front of celld sends a domain there, and `runlot events` says so."},
	{name: "`delete`", of: "CJ", state: works, tests: "`TestWranglerDeploys`", note: "Without `--force`, a script that others depend on is refused."},
	{
		name: "`queues list`, `create`, `info`, `update`, `pause-delivery`, `resume-delivery`, `purge`, `delete`, `consumer add` and `remove`", of: "CJ", state: works,
		tests: "`TestWranglerQueues`", note: "`worker` and `http` consumers. `queues delete` is refused while a live version names the queue.",
	},
	{
		name: "producers and a consumer of one queue in several scripts", of: "CJ", state: works, tests: "`TestQueuesBetweenScripts`",
		note: "Names of queues mean the same in every script with a wrangler file, and in every app of one database with a `runlot.json`. A second consumer is refused with code 11004, naming both. A `delivery_delay` is of the producer binding that names it, so that two scripts may have different ones.",
	},
	{
		name: "`d1 create`, `list`, `info`, `delete`, `execute --remote` with `--command` and `--file`, `export --remote`, `migrations list`, `create` and `apply --remote`",
		of:   "CJ", state: differs, tests: "`TestWranglerDeploys`, `TestWranglerD1`, `TestADumpMakesTheDatabaseAgain`",
		note: "The id of a database that is made so is its name. `info` knows of no use. A file is at most 64 MiB and one transaction, and an export is of the moment at which it is fetched. " +
			"A database with a virtual table is not exported, as on Cloudflare. One that an app declares which runs is not deleted.",
	},
	{name: "`d1 time-travel`, `d1 insights`", of: "CJ", state: absent, note: "Refused: celld keeps no earlier states of a database and no statistics of queries. Use `celld backup` or `d1 export`."},
	{
		name: "`queues subscription create`, `list`, `get`, `update` and `delete`", of: "CJ", state: differs, tests: "`TestWranglerSubscriptions`",
		note: "The one source that both wrangler and this server know is `workersBuilds.worker`, with the events of deployments. `runlot subscription` has them all.",
	},
	{
		name: "`kv namespace create`, `list`, `rename` and `delete`, `kv key put`, `get`, `list` and `delete`, `kv bulk put`, `get` and `delete`, with `--remote`",
		of:   "CJ", state: differs, tests: "`TestWranglerData`",
		note: "The data that bindings see, at once. A namespace that a live version binds is not deleted. A bulk write is all or nothing.",
	},
	{
		name: "`r2 bucket create`, `list`, `info` and `delete`, `r2 bucket notification create`, `list` and `delete`, `r2 object put`, `get` and `delete`, `r2 bulk put`, with `--remote`",
		of:   "CJ", state: differs, tests: "`TestWranglerData`",
		note: "The objects that bindings see, with the same events. A bucket that a live version binds is not deleted. There is one storage class and one place; what a bucket can have " +
			"beyond objects and rules for events (`cors`, `lifecycle`, `lock`, `domain`, `sippy`, `catalog`) is refused with code 7003. wrangler itself cuts a key at `?` and `#`.",
	},
	{
		name: "the npm package `cloudflare`: `client.queues` and all below it", of: "C", state: works, tests: "`TestSDK`",
	},
	{
		name: "the same: `client.r2.buckets` with `objects` and `eventNotifications`", of: "C", state: differs, tests: "`TestWranglerData`",
		note: "The rest below `client.r2` is refused. `update` of a bucket's notifications adds rules to those that there are.",
	},
	{
		name: "the same: `client.kv`", of: "C", state: differs, tests: "`TestWranglerData`",
		note: "Metadata of `values.update` is JSON as text: an object, which the package sends as a form with a part for each key, is refused.",
	},
	{
		name: "the Go package `cloudflare-go`: `client.Queues` and all below it", of: "C", state: works, tests: "`TestGoSDK`",
		note: "There is no parameter for `wait_ms` of a pull; `option.WithJSONSet(\"wait_ms\", 20000)` sets it.",
	},
}}
