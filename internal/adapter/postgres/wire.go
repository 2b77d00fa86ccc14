package postgres

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/trace"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// The binary forms of PostgreSQL's wire protocol, for the few statements through which every message goes: pgx's general
// encoders cost a noticeable part of the whole there.

// epochMilli is PostgreSQL's zero of time, 2000-01-01 UTC, in milliseconds since 1970.
const epochMilli = 946_684_800_000

const null = math.MaxUint32

func toMicros(milli int64) int64 {
	return (milli - epochMilli) * int64(time.Millisecond/time.Microsecond)
}

func fromMicros(micros int64) int64 {
	return micros/int64(time.Millisecond/time.Microsecond) + epochMilli
}

// putInt8, putInt4 and putInt2 append a value behind its length; putNull appends NULL.
func putInt8(b []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(b, 8), uint64(v))
}

func putInt4(b []byte, v int32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, 4), uint32(v))
}

func putInt2(b []byte, v int16) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(b, 2), uint16(v))
}

func putNull(b []byte) []byte { return binary.BigEndian.AppendUint32(b, null) }

func putBytes(b, v []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
}

// putOrigin and putVisible append the two columns in which 0 is NULL.
func putOrigin(b []byte, origin int64) []byte {
	if origin == 0 {
		return putNull(b)
	}
	return putInt8(b, origin)
}

func putVisible(b []byte, visibleAt int64) []byte {
	if visibleAt == 0 {
		return putNull(b)
	}
	return putInt8(b, toMicros(visibleAt))
}

// putTrace appends the trace of a message; most have none.
func putTrace(b []byte, c *trace.Context) []byte {
	if c == nil {
		return putNull(b)
	}
	return c.AppendBinary(binary.BigEndian.AppendUint32(b, trace.ContextBytes))
}

// putArrayHead begins a one-dimensional array of n elements, which the caller appends.
func putArrayHead(b []byte, oid uint32, n int) []byte {
	const mayHoldNull = 1
	b = binary.BigEndian.AppendUint32(b, 1)
	b = binary.BigEndian.AppendUint32(b, mayHoldNull)
	b = binary.BigEndian.AppendUint32(b, oid)
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	return binary.BigEndian.AppendUint32(b, 1)
}

// putArray appends an array with one element for each of list.
func putArray[T any](b []byte, oid uint32, list []T, put func(b []byte, v *T) []byte) []byte {
	b = putArrayHead(b, oid, len(list))
	for i := range list {
		b = put(b, &list[i])
	}
	return b
}

// The columns of the message table in the order of COPY and of every INSERT.
const messageColumns = "seq, origin, sent_at, visible_at, queue_id, failures, losses, format, body, trace"

// putCopy appends rows as the data of COPY … WITH (FORMAT binary), whole: header, rows, trailer.
func putCopy(b []byte, rows []store.Row) []byte {
	const columns = 10
	b = append(b, "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"...)
	for i := range rows {
		r := &rows[i]
		b = binary.BigEndian.AppendUint16(b, columns)
		b = putInt8(b, r.Seq)
		b = putOrigin(b, r.Origin)
		b = putInt8(b, toMicros(r.SentAt))
		b = putVisible(b, r.VisibleAt)
		b = putInt4(b, r.Queue)
		b = putInt2(b, r.Failures)
		b = putInt2(b, r.Losses)
		b = putInt2(b, int16(r.Format))
		b = putBytes(b, r.Body)
		b = putTrace(b, r.Trace)
	}
	return binary.BigEndian.AppendUint16(b, math.MaxUint16)
}

// rowArrays builds the parameters of the insert statement.
func (f *frame) rowArrays(rows []store.Row) [][]byte {
	return f.params(
		func(b []byte) []byte {
			return putArray(b, pgtype.Int8OID, rows, func(b []byte, r *store.Row) []byte { return putInt8(b, r.Seq) })
		},
		func(b []byte) []byte {
			return putArray(b, pgtype.Int8OID, rows, func(b []byte, r *store.Row) []byte { return putOrigin(b, r.Origin) })
		},
		func(b []byte) []byte {
			return putArray(b, pgtype.TimestamptzOID, rows, func(b []byte, r *store.Row) []byte { return putInt8(b, toMicros(r.SentAt)) })
		},
		func(b []byte) []byte {
			return putArray(b, pgtype.TimestamptzOID, rows, func(b []byte, r *store.Row) []byte { return putVisible(b, r.VisibleAt) })
		},
		func(b []byte) []byte {
			return putArray(b, pgtype.Int4OID, rows, func(b []byte, r *store.Row) []byte { return putInt4(b, r.Queue) })
		},
		func(b []byte) []byte {
			return putArray(b, pgtype.Int2OID, rows, func(b []byte, r *store.Row) []byte { return putInt2(b, r.Failures) })
		},
		func(b []byte) []byte {
			return putArray(b, pgtype.Int2OID, rows, func(b []byte, r *store.Row) []byte { return putInt2(b, r.Losses) })
		},
		func(b []byte) []byte {
			return putArray(b, pgtype.Int2OID, rows, func(b []byte, r *store.Row) []byte { return putInt2(b, int16(r.Format)) })
		},
		func(b []byte) []byte {
			return putArray(b, pgtype.ByteaOID, rows, func(b []byte, r *store.Row) []byte { return putBytes(b, r.Body) })
		},
		func(b []byte) []byte {
			return putArray(b, pgtype.ByteaOID, rows, func(b []byte, r *store.Row) []byte { return putTrace(b, r.Trace) })
		},
	)
}

// frame is the memory in which a writer builds what it sends; it is used again for every operation.
type frame struct {
	buf  []byte
	keys []store.Key
}

// frameKeep is the most memory that a frame keeps for the next operation.
const frameKeep = 16 << 20

// reset makes the frame empty.
func (f *frame) reset() {
	if cap(f.buf) > frameKeep {
		f.buf = nil
	}
	f.buf = f.buf[:0]
}

// params appends parameters to the frame and returns them. The frame may move while it grows, so the slices are cut at
// the end.
func (f *frame) params(put ...func(b []byte) []byte) [][]byte {
	ends := make([]int, len(put))
	start := len(f.buf)
	for i, p := range put {
		f.buf = p(f.buf)
		ends[i] = len(f.buf)
	}
	values := make([][]byte, len(put))
	for i, end := range ends {
		values[i] = f.buf[start:end:end]
		start = end
	}
	return values
}

// int8Of, int4Of and int2Of read a binary value; NULL, which has no bytes, is 0.
func int8Of(b []byte) int64 {
	if len(b) == 0 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

func int4Of(b []byte) int32 { return int32(binary.BigEndian.Uint32(b)) }

func int2Of(b []byte) int16 { return int16(binary.BigEndian.Uint16(b)) }

func milliOf(b []byte) int64 {
	if len(b) == 0 {
		return 0
	}
	return fromMicros(int8Of(b))
}

// rowOf reads the columns of messageColumns. The body is copied: the bytes belong to the connection.
func rowOf(v [][]byte) store.Row {
	const seq, origin, sentAt, visibleAt, queueID, failures, losses, format, body, context = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
	return store.Row{
		Seq: int8Of(v[seq]), Origin: int8Of(v[origin]), SentAt: milliOf(v[sentAt]), VisibleAt: milliOf(v[visibleAt]),
		Queue: int4Of(v[queueID]), Failures: int2Of(v[failures]), Losses: int2Of(v[losses]), Format: queue.Format(int2Of(v[format])),
		Body: append(make([]byte, 0, len(v[body])), v[body]...), Trace: trace.FromBinary(v[context]),
	}
}

// putRawInt4 appends a value without its length, as a parameter by itself.
func putRawInt4(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }
