package queue

import (
	"strconv"

	"github.com/runlot/runlot/internal/core/fault"
)

// Codes of what a producer call can be refused with. The numbers are Cloudflare's; the names are the Runlot document's.
const (
	CodeQueueNotFound   = "10104"
	CodeDelayInvalid    = "10202"
	CodeMetadataInvalid = "10203"
	CodeMessageSize     = "10204"
	CodeBatchSize       = "10205"
	CodeBatchCount      = "10206"
	CodeBodyInvalid     = "10207"
	CodeBodyMalformed   = "10208"
	CodeOverloaded      = "10250"
	CodeStorageFull     = "database_full"
	CodeOperationsCap   = "queue_ops_cap"
	CodeInternal        = "15000"
)

// CheckDraft checks one message against the limits of its producer's dialect.
func CheckDraft(l Limits, d *Draft) *fault.Error {
	if len(d.Body) > l.MessageBytes {
		return fault.New(fault.Limit, CodeMessageSize, "message length of %d bytes exceeds limit of %d", len(d.Body), l.MessageBytes)
	}
	if d.Delay != nil {
		if _, clamped := ClampDelay(*d.Delay); clamped {
			return fault.New(fault.Invalid, CodeMetadataInvalid, "delay of %s seconds is outside 0 to %d",
				strconv.FormatFloat(d.Delay.Seconds(), 'f', -1, 64), int64(MaxDelay.Seconds()))
		}
	}
	return nil
}

// CheckBatch checks a sendBatch call against the limits of its producer's dialect: the whole call or nothing is accepted.
func CheckBatch(l Limits, drafts []Draft) *fault.Error {
	if len(drafts) == 0 {
		return fault.New(fault.Limit, CodeBatchCount, "batch message count of 0 is below the minimum of 1")
	}
	if len(drafts) > MaxSendBatch {
		return fault.New(fault.Limit, CodeBatchCount, "batch message count of %d exceeds limit of %d", len(drafts), MaxSendBatch)
	}
	total := 0
	for i := range drafts {
		if f := CheckDraft(l, &drafts[i]); f != nil {
			return fault.New(f.Kind, f.Code, "message %d: %s", i, f.Message)
		}
		total += len(drafts[i].Body)
	}
	if total > l.BatchBytes {
		return fault.New(fault.Limit, CodeBatchSize, "batch size of %d bytes exceeds limit of %d bytes", total, l.BatchBytes)
	}
	return nil
}
