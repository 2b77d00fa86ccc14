package broker

import (
	"cmp"
	"log/slog"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
	"github.com/runlot/runlot/internal/engine/broker/usage"
	"github.com/runlot/runlot/internal/engine/broker/window"
)

// Options are what a broker is made of.
type Options struct {
	// Store keeps the messages. The broker releases it in Stop.
	Store store.Store
	// Log takes what an operator should know; nil discards it.
	Log *slog.Logger
	// Bounds are the sizes of what is held in memory and of what goes to the store at once. A field that is 0 takes the
	// constant of the same name in core/queue; tests make them tiny.
	Bounds Bounds
	// DailyOperations is the most operations of a day that sends may use up, until SetDailyOperations; 0 is no cap.
	DailyOperations int64
	// Space limits the space of the database.
	Space usage.Bounds
	// Observer is told when one of the two is near or reached; nil is nobody.
	Observer usage.Observer
}

// Bounds are described at the constants of core/queue that have the same names.
type Bounds struct {
	GroupRows      int
	GroupBytes     int
	GroupWaiting   int
	SettleRows     int
	LaneRows       int
	LaneBytes      int
	StoreLaneBytes int
	DueRows        int
	ReadRows       int
	ReadBytes      int
	InboxRows      int
	ExpireRows     int
}

func (b Bounds) orDefaults() Bounds {
	return Bounds{
		GroupRows:      cmp.Or(b.GroupRows, queue.GroupRows),
		GroupBytes:     cmp.Or(b.GroupBytes, queue.GroupBytes),
		GroupWaiting:   cmp.Or(b.GroupWaiting, queue.GroupWaiting),
		SettleRows:     cmp.Or(b.SettleRows, queue.SettleRows),
		LaneRows:       cmp.Or(b.LaneRows, queue.LaneRows),
		LaneBytes:      cmp.Or(b.LaneBytes, queue.LaneBytes),
		StoreLaneBytes: cmp.Or(b.StoreLaneBytes, queue.StoreLaneBytes),
		DueRows:        cmp.Or(b.DueRows, queue.DueRows),
		ReadRows:       cmp.Or(b.ReadRows, queue.ReadRows),
		ReadBytes:      cmp.Or(b.ReadBytes, queue.ReadBytes),
		InboxRows:      cmp.Or(b.InboxRows, queue.InboxRows),
		ExpireRows:     cmp.Or(b.ExpireRows, queue.ExpireRows),
	}
}

// window are the bounds of what each queue holds in memory.
func (b Bounds) window() window.Bounds {
	return window.Bounds{
		LaneRows: b.LaneRows, LaneBytes: b.LaneBytes, StoreLaneBytes: b.StoreLaneBytes, DueRows: b.DueRows,
		ReadRows: b.ReadRows, ReadBytes: b.ReadBytes,
	}
}
