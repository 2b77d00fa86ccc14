package queue

// OperationBytes is the size that one operation pays for.
const OperationBytes = 64_000

// Operations is the number of operations that writing, delivering or deleting a body of size bytes counts: one for each
// started 64,000 bytes, at least one.
func Operations(size int) int64 {
	return int64(max(1, (size+OperationBytes-1)/OperationBytes))
}
