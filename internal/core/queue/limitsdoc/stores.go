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
			{"KVTitleBytes", queue.KVTitleBytes, bytesUnit, "lists: the title of a namespace"},
			{"KVBulkWriteKeys", queue.KVBulkWriteKeys, keysUnit, "who else calls the namespace: one bulk write over HTTP"},
			{"KVBulkWriteBytes", queue.KVBulkWriteBytes, bytesUnit, "memory: the body of one bulk write over HTTP"},
			{"KVOperatorBytes", queue.KVOperatorBytes, bytesUnit, "memory: values of calls over HTTP at a time"},
			{"KVExpiredRows", queue.KVExpiredRows, keysUnit, "latency: expired keys that one commit deletes"},
		},
	},
	{
		title: "R2 buckets",
		intro: "What a Worker meets, as on Cloudflare R2, and what protects the node.",
		limits: []limit{
			{"R2KeyBytes", queue.R2KeyBytes, bytesUnit, "the file and its lists: a key"},
			{"R2MetadataBytes", queue.R2MetadataBytes, bytesUnit, "the same: the custom metadata of an object"},
			{"R2ObjectBytes", queue.R2ObjectBytes, bytesUnit, "the disk: the body of one put or part"},
			{"R2PartBytes", queue.R2PartBytes, bytesUnit, "reads: the least size of a part that is not the last"},
			{"R2Parts", queue.R2Parts, "parts", "reads: parts of one upload"},
			{"R2Page", queue.R2Page, "objects", "memory: one answer of `list`"},
			{"R2PageBytes", queue.R2PageBytes, bytesUnit, "the client library: the same"},
			{"R2DeleteKeys", queue.R2DeleteKeys, keysUnit, "who else calls the bucket: one `delete`"},
			{"R2RequestBytes", queue.R2RequestBytes, bytesUnit, "memory: a call without the body"},
			{"R2IdleTime", queue.R2IdleTime, "", "connections: how long a body may stand still"},
			{"R2UploadTime", queue.R2UploadTime, "", "the disk: how long a multipart upload is kept that nobody completes"},
			{"R2DoomedRows", queue.R2DoomedRows, filesUnit, "latency: files that are deleted behind one write"},
			{"R2Events", queue.R2Events, eventsUnit, "the queue: events of a bucket that one call sends"},
			{"R2RetryFirst", queue.R2RetryFirst, "", "a queue that does not take events: the first wait before another try"},
			{"R2RetryMax", queue.R2RetryMax, "", "the same: the longest wait, which doubles until then"},
			{"R2Rules", queue.R2Rules, "rules", "writes: rules for events of one bucket"},
			{"R2ReadTries", queue.R2ReadTries, "looks", "a reader: looks at an object that changes while it is read"},
		},
	},
	{
		title: "R2 buckets in S3",
		intro: "With `--r2-url`.",
		limits: []limit{
			{"S3Connections", queue.S3Connections, "connections", "the store: connections of a node"},
			{"S3DialTime", queue.S3DialTime, "", "callers: how long a connection may take to come about"},
			{"S3IdleTime", queue.S3IdleTime, "", "callers: how long one may stand still while something is on its way"},
			{"S3KeepTime", queue.S3KeepTime, "", "the store: how long one is kept that nobody uses"},
			{"S3Tries", queue.S3Tries, "tries", "the store: tries of a call that it does not answer"},
			{"S3StartTime", queue.S3StartTime, "", "the start: how long it waits for the store"},
			{"S3MetadataBytes", queue.S3MetadataBytes, bytesUnit, "the store, which keeps no more beside an object"},
			{"S3Parallel", queue.S3Parallel, "objects", "the store: objects that one call asks about at a time"},
			{"S3CountTime", queue.S3CountTime, "", "the store: how long the objects of a bucket may take to be counted"},
			{"S3DoubtTime", queue.S3DoubtTime, "", "the store: how long it is looked whether a change was made that it did not confirm"},
			{"S3DoubtLook", queue.S3DoubtLook, "", "the store: the wait between two looks"},
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
		intro: "The SQLite files that KV namespaces and R2 buckets are kept in.",
		limits: []limit{
			{"StoreGroup", queue.StoreGroup, "writes", "latency: writes of one file that share a commit"},
			{"StoreWaiting", queue.StoreWaiting, calls, "memory: calls that wait for one file"},
			{"StoreWaitTime", queue.StoreWaitTime, "", "the caller: the wait for the calls before it"},
			{"StoreOpen", queue.StoreOpen, filesUnit, "memory and file descriptors: files that stay open while nobody calls them"},
		},
	},
}
