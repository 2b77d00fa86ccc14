package conformance_test

// wranglerCommands are those of wrangler 4.86.0, which a test runs on a celld as they are.
var wranglerCommands = area{"wrangler", []feature{
	{name: "`whoami`", of: "CJ", state: works, tests: "`TestWranglerDeploys`", note: "With a token in CLOUDFLARE_API_TOKEN; `runlot wrangler-env` writes the environment. There is no `wrangler login`."},
	{
		name: "`deploy`, `versions upload`", of: "CJ", state: differs, tests: "`TestWranglerDeploys`, `TestWranglerStores`",
		note: "Bindings to queues, D1, KV, R2, Durable Objects with their migrations, one Hyperdrive, vars and secrets; any other is refused by its name. " +
			"Crons and consumers belong to a version here, so that the first deployment makes a version more for each of them, and a rollback takes them back too. " +
			"The address is printed as https and with `?.workers.dev` behind it. Where several migrations come at once, their script cannot be deployed with `runlot` afterwards.",
	},
	{
		name: "`versions list`, `view` and `deploy`, `deployments list` and `status`, `rollback`", of: "CJ", state: differs, tests: "`TestWranglerDeploys`",
		note: "A deployment is one version for all requests; a split is refused. Tags are not kept, messages are.",
	},
	{name: "`secret put`, `list`, `delete` and `bulk`", of: "CJ", state: differs, tests: "`TestWranglerDeploys`", note: "Secrets are of the script and not of a version: the live one is started again with them."},
	{name: "`triggers deploy`", of: "CJ", state: differs, tests: "`TestWranglerDeploys`", note: "Crons and consumers. Routes and custom domains are refused: an app is reached under its name."},
	{name: "`delete`", of: "CJ", state: works, tests: "`TestWranglerDeploys`", note: "Without `--force`, a script that others depend on is refused."},
	{
		name: "`queues list`, `create`, `info`, `update`, `pause-delivery`, `resume-delivery`, `purge`, `consumer add` and `remove`", of: "CJ", state: works,
		tests: "`TestWranglerQueues`", note: "`worker` and `http` consumers. `queues delete` is refused: `purge` empties a queue.",
	},
	{
		name: "`d1 create`, `list`, `info`, `execute --remote --command`, `migrations list` and `apply --remote`", of: "CJ", state: differs, tests: "`TestWranglerDeploys`",
		note: "The id of a database that is made so is its name. `info` knows of no use. `delete`, `execute --file` and `export` are not there.",
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
	{name: "`tail`, `versions secret`, `queues subscription`", of: "CJ", state: absent, note: "Refused with code 7003, which names the call."},
	{
		name: "the npm package `cloudflare`: `client.queues` and all below it", of: "C", state: differs, tests: "`TestSDK`",
		note: "`queues.delete` and `queues.subscriptions` are refused.",
	},
	{
		name: "the same: `client.r2.buckets` with `objects` and `eventNotifications`", of: "C", state: differs, tests: "`TestWranglerData`",
		note: "The rest below `client.r2` is refused. `update` of a bucket's notifications adds rules to those that there are.",
	},
	{
		name: "the same: `client.kv`", of: "C", state: differs, tests: "`TestWranglerData`",
		note: "Metadata of `values.update` is JSON as text: an object, which the package sends as a form with a part for each key, is refused.",
	},
}}
