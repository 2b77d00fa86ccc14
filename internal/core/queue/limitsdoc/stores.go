package main

import "github.com/runlot/runlot/internal/core/queue"

const keysUnit = "keys"

// stores are the tables of what bindings to stores can hold and ask for.
var stores = []section{
	{
		title: "KV namespaces",
		intro: "What a Worker meets, as on Cloudflare KV, and what protects the node.",
		limits: []limit{
			{"KVKeyBytes", queue.KVKeyBytes, bytesUnit, "the file and its lists: a key"},
			{"KVMetadataBytes", queue.KVMetadataBytes, bytesUnit, "the lists: the metadata of a key, as JSON"},
			{"KVValueBytes", queue.KVValueBytes, bytesUnit, "memory: a value"},
			{"KVMinTTL", queue.KVMinTTL, "", "the user, who writes for Cloudflare too: the least time to an expiration"},
			{"KVMinCacheTTL", queue.KVMinCacheTTL, "", "the same: the least `cacheTtl`, which has no effect here"},
			{"KVPage", queue.KVPage, keysUnit, "memory: one answer of `list`"},
			{"KVBulkKeys", queue.KVBulkKeys, keysUnit, "who else calls the namespace: one bulk read"},
			{"KVBulkBytes", queue.KVBulkBytes, bytesUnit, "memory: the values of one bulk read"},
			{"KVSmallBytes", queue.KVSmallBytes, bytesUnit, "memory: a value that is read without waiting for room"},
			{"KVRequestsBytes", queue.KVRequestsBytes, bytesUnit, "memory: values that are read and written at a time, over all namespaces of a node"},
			{"KVTransferTime", queue.KVTransferTime, "", "memory: how long a value may take on its way from or to a Worker"},
			{"KVExpiredRows", queue.KVExpiredRows, keysUnit, "latency: expired keys that one commit deletes"},
		},
	},
	{
		title: "Durable Objects",
		intro: "Processes that share a store never run at the same time.",
		limits: []limit{
			{"AloneDrainTime", queue.AloneDrainTime, "", "requests that wait: how long the old process finishes what is in flight before the new one starts"},
			{"ObjectsLockTime", queue.ObjectsLockTime, "", "the start: how long a process waits for one that still has the same objects"},
		},
	},
	{
		title: "Files of stores",
		intro: "The SQLite files that KV namespaces are kept in.",
		limits: []limit{
			{"StoreGroup", queue.StoreGroup, "writes", "latency: writes of one file that share a commit"},
			{"StoreWaiting", queue.StoreWaiting, calls, "memory: calls that wait for one file"},
			{"StoreWaitTime", queue.StoreWaitTime, "", "the caller: the wait for the calls before it"},
			{"StoreOpen", queue.StoreOpen, filesUnit, "memory and file descriptors: files that stay open while nobody calls them"},
		},
	},
}
