package series

import (
	"strconv"
	"time"

	"github.com/runlot/runlot/internal/adapter/postgres/series/query"
	"github.com/runlot/runlot/internal/engine/series"
)

// columns turns rows into the arrays that a write sends.
func columns(rows []series.Row) query.WriteMinutesParams {
	var p query.WriteMinutesParams
	for i := range rows {
		r := &rows[i]
		p.Queues = append(p.Queues, r.Queue)
		p.Minutes = append(p.Minutes, r.Start)
		p.Writers = append(p.Writers, r.Writer)
		p.Sent = append(p.Sent, r.Sent)
		p.SentBytes = append(p.SentBytes, r.SentBytes)
		p.Arrived = append(p.Arrived, r.Arrived)
		p.Gone = append(p.Gone, r.Left)
		p.Delivered = append(p.Delivered, r.Delivered)
		p.Acked = append(p.Acked, r.Acked)
		p.Retried = append(p.Retried, r.Retried)
		p.Redelivered = append(p.Redelivered, r.Redelivered)
		p.Dead = append(p.Dead, r.Dead)
		p.Dropped = append(p.Dropped, r.Dropped)
		p.Expired = append(p.Expired, r.Expired)
		p.HandlerUs = append(p.HandlerUs, r.HandlerTime.Microseconds())
		p.MaxVisible = append(p.MaxVisible, r.Visible)
		p.MaxDelayed = append(p.MaxDelayed, r.Delayed)
		p.MaxInFlight = append(p.MaxInFlight, r.InFlight)
		p.MaxOldestMs = append(p.MaxOldestMs, r.Oldest.Milliseconds())
		p.MaxBytes = append(p.MaxBytes, r.LaneBytes)
		p.MaxRunning = append(p.MaxRunning, int32(r.Running))
		p.MaxAllowed = append(p.MaxAllowed, int32(r.Allowed))
		p.Days = append(p.Days, turn(r.Start))
		p.Batches = append(p.Batches, array(r.Batches[:]))
		p.Handlers = append(p.Handlers, array(r.Handler[:]))
	}
	return p
}

// array is the text of an array of numbers without the zeros at its end, but for the first.
func array(list []int64) string {
	for len(list) > len(series.Outcomes) && list[len(list)-1] == 0 {
		list = list[:len(list)-1]
	}
	text := []byte{'{'}
	for i, n := range list {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, n, 10)
	}
	return string(append(text, '}'))
}

// fill copies what was stored of a list.
func fill(to []int64, stored []int32) {
	for i := range min(len(to), len(stored)) {
		to[i] = int64(stored[i])
	}
}

func row(queueName string, m *query.ReadMinutesRow) series.Row {
	r := series.Row{Queue: queueName, Writer: m.Writer, Point: series.Point{
		Start: m.Minute.UTC(),
		Counts: series.Counts{
			Sent: m.Sent, SentBytes: m.SentBytes, Arrived: m.Arrived, Left: m.Gone, Delivered: m.Delivered, Acked: m.Acked,
			Retried: m.Retried, Redelivered: m.Redelivered, Dead: m.Dead, Dropped: m.Dropped, Expired: m.Expired,
			HandlerTime: time.Duration(m.HandlerUs) * time.Microsecond,
		},
		Gauges: series.Gauges{
			Visible: m.MaxVisible, Delayed: m.MaxDelayed, InFlight: m.MaxInFlight, Oldest: time.Duration(m.MaxOldestMs) * time.Millisecond,
			Running: int(m.MaxRunning), Allowed: int(m.MaxAllowed), LaneBytes: m.MaxBytes,
		},
	}}
	fill(r.Batches[:], m.Batches)
	fill(r.Handler[:], m.Handler)
	return r
}
