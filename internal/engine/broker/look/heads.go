package look

import (
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// Bounded cuts heads where the bodies become more than one transaction should move.
func Bounded(heads []store.Head) []store.Head {
	bytes := 0
	for i := range heads {
		if bytes += heads[i].Bytes; bytes > queue.ReadBytes && i > 0 {
			return heads[:i]
		}
	}
	return heads
}

// Without returns the IDs that are not among others, in their order; nil when there are none.
func Without(ids, others []queue.ID) []queue.ID {
	among := make(map[queue.ID]struct{}, len(others))
	for _, id := range others {
		among[id] = struct{}{}
	}
	var left []queue.ID
	for _, id := range ids {
		if _, ok := among[id]; !ok {
			left = append(left, id)
		}
	}
	return left
}
