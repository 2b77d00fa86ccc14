// Package resident bounds the memory of a worker process. The heap of V8 has a bound of its own, which ArrayBuffers,
// WebAssembly and workerd itself do not count towards.
//
// Two bounds together keep the machine alive. Wall makes an allocation fail that would take the process too far, whatever
// its speed: in JavaScript it is a RangeError. Watch notices a process that has taken more than it should and ends with
// it, so that its deliveries are lost, which blames none of them, rather than failed one after the other.
package resident

import (
	"context"
	"time"
)

// Watch returns the memory that a process has resident, in bytes, as soon as that is over limit, and 0 when ctx ends first
// or nothing can be known of the process any more. It looks every so often.
func Watch(ctx context.Context, pid int, limit int64, every time.Duration) int64 {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return 0
		case <-tick.C:
		}
		size, err := Bytes(ctx, pid)
		switch {
		case err != nil:
			return 0
		case size > limit:
			return size
		}
	}
}
