package queue

import "time"

// Bounds of KV namespaces. Those that a Worker can meet are Cloudflare's.
const (
	// KVKeyBytes is the longest key, KVMetadataBytes the longest metadata as JSON, KVValueBytes the largest value.
	KVKeyBytes      = 512
	KVMetadataBytes = 1_024
	KVValueBytes    = 25 << 20
	// KVMinTTL is the least time from a put to the expiration that it names.
	KVMinTTL = time.Minute
	// KVMinCacheTTL is the least cacheTtl of a read, which has no effect: every read sees the last write.
	KVMinCacheTTL = 30 * time.Second
	// KVPage is the most keys of one answer of list, KVBulkKeys the most keys of one bulk read, KVBulkBytes the most bytes of
	// its answer.
	KVPage      = 1_000
	KVBulkKeys  = 100
	KVBulkBytes = 25 << 20
	// KVSmallBytes is the largest value that is read without asking for room, KVRequestsBytes the room for all others that
	// are read and written at a time, over all namespaces of a node; a call that finds no room waits.
	KVSmallBytes    = 64 << 10
	KVRequestsBytes = 256 << 20
	// KVTransferTime is how long a value may take on its way from or to a Worker.
	KVTransferTime = 2 * time.Minute
	// KVTitleBytes is the longest title of a namespace. KVBulkWriteKeys and KVBulkWriteBytes are the most keys and the largest
	// body of one bulk write over HTTP, KVOperatorBytes the room for the values of such calls at a time; a call that finds no
	// room waits.
	KVTitleBytes     = 512
	KVBulkWriteKeys  = 10_000
	KVBulkWriteBytes = 100 << 20
	KVOperatorBytes  = 128 << 20
	// KVExpiredRows is the most expired keys that one commit deletes.
	KVExpiredRows = 64
)

// Bounds of the SQLite files that the product itself lays out.
const (
	// StoreGroup is the most writes of one file that share a commit.
	StoreGroup = 256
	// StoreWaiting is the most calls that wait for one file, StoreWaitTime the longest that one of them waits.
	StoreWaiting  = 10_000
	StoreWaitTime = 30 * time.Second
	// StoreOpen is the most files that stay open while nobody calls them.
	StoreOpen = 64
)

// Bounds of Durable Objects.
const (
	// AloneDrainTime is how long the process of an app with Durable Objects may finish what is in flight while the one that
	// follows waits for it, and requests for both.
	AloneDrainTime = 10 * time.Second
	// ObjectsLockTime is how long a process waits for one that still has the same objects.
	ObjectsLockTime = 10 * time.Second
)

// Bounds of R2 buckets. Those that a Worker can meet are Cloudflare's.
const (
	// R2KeyBytes is the longest key, R2MetadataBytes the largest custom metadata: the keys and values together.
	R2KeyBytes      = 1_024
	R2MetadataBytes = 8_192
	// R2ObjectBytes is the largest body of one put or part.
	R2ObjectBytes = 5 << 30
	// R2PartBytes is the least size of a part that is not the last, R2Parts the most parts of one upload.
	R2PartBytes = 5 << 20
	R2Parts     = 10_000
	// R2Page is the most objects of one answer of list, R2PageBytes the most bytes of it; R2DeleteKeys the most keys of one
	// delete.
	R2Page       = 1_000
	R2PageBytes  = 512 << 10
	R2DeleteKeys = 1_000
	// R2RequestBytes is the largest head of a call.
	R2RequestBytes = 3 << 20
	// R2IdleTime is how long a body on its way to or from a Worker may stand still.
	R2IdleTime = 2 * time.Minute
	// R2UploadTime is how long a multipart upload is kept that nobody completes.
	R2UploadTime = 7 * 24 * time.Hour
	// R2DoomedRows is the most files that are deleted behind one write.
	R2DoomedRows = 1_000
	// R2Events is the most events of a bucket that one call sends to a queue; R2RetryFirst and R2RetryMax are the waits
	// between two tries, doubling.
	R2Events     = 25
	R2RetryFirst = time.Second
	R2RetryMax   = time.Minute
	// R2Rules is the most rules of one bucket.
	R2Rules = 100
	// R2ReadTries is how often an object is looked at that changes while it is read.
	R2ReadTries = 5
)

// Bounds of R2 buckets that are kept in an S3 store.
const (
	// S3Connections is the most connections to the store. S3DialTime is how long one may take to come about, S3IdleTime how long
	// one may stand still while something is on its way, and S3KeepTime how long one is kept that nobody uses.
	S3Connections = 64
	S3DialTime    = 10 * time.Second
	S3IdleTime    = time.Minute
	S3KeepTime    = 90 * time.Second
	// S3Tries is how often a call is made that the store does not answer.
	S3Tries = 4
	// S3StartTime is how long the start waits for the store's answer to whether it can be used.
	S3StartTime = 10 * time.Second
	// S3MetadataBytes is the most that the store keeps beside an object, names and values.
	S3MetadataBytes = 2_048
	// S3Parallel is the most objects that one call asks the store about at a time.
	S3Parallel = 16
	// S3CountTime is how long the objects of a bucket may take to be counted.
	S3CountTime = 30 * time.Second
	// S3DoubtTime is how long it is looked whether a change was made that the store did not confirm; S3DoubtLook is the wait
	// between two looks.
	S3DoubtTime = 10 * time.Minute
	S3DoubtLook = 10 * time.Second
)
