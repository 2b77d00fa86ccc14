package r2

import (
	"context"

	"github.com/runlot/runlot/internal/core/fault"
)

// CodeQueueFed is the code of the fault, of kind Conflict, for a queue that cannot be deleted because buckets tell it of
// their changes.
const CodeQueueFed = "queue_fed"

// Unfed refuses a queue that a rule of a bucket sends events to. Fault: Conflict (CodeQueueFed).
func (b *Buckets) Unfed(ctx context.Context, database, queueName string) error {
	buckets, err := b.files.Names()
	if err != nil {
		return err
	}
	for _, bucket := range buckets {
		rules, err := b.Rules(ctx, bucket)
		if err != nil {
			return err
		}
		for i := range rules {
			if rules[i].Database == database && rules[i].Queue == queueName {
				return fault.New(fault.Conflict, CodeQueueFed, "the queue %s cannot be deleted: the R2 bucket %s sends events to it", queueName, bucket).
					WithHint("`runlot r2 notification delete %s --queue %s` ends that", bucket, queueName)
			}
		}
	}
	return nil
}
