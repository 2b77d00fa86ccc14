package record

import (
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/adapter/postgres/record/query"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/ledger"
)

// outcomes and kinds are stored as their place in these lists, from 1. The order never changes.
var (
	outcomes = []queue.Outcome{queue.OK, queue.Failed, queue.TimedOut, queue.Lost, queue.Errored, ledger.Expired, ledger.Gap}
	kinds    = []ledger.FateKind{ledger.Retried, ledger.Redelivered, ledger.Dead, ledger.Dropped}
)

// outcomeNumber is 0 for an outcome that there is not.
func outcomeNumber(o queue.Outcome) int16 { return int16(slices.Index(outcomes, o) + 1) }

// columns turns records into the arrays that a write sends.
func columns(list []ledger.Record) query.WriteRecordsParams {
	var p query.WriteRecordsParams
	for i := range list {
		r := &list[i]
		p.Queues = append(p.Queues, r.ID.Queue)
		p.Numbers = append(p.Numbers, r.ID.Number)
		p.StartedAts = append(p.StartedAts, r.Start)
		p.Durations = append(p.Durations, r.Duration.Microseconds())
		p.Delivered = append(p.Delivered, int32(r.Delivered))
		p.Acked = append(p.Acked, int32(r.Acked))
		p.Retried = append(p.Retried, int32(r.Retried))
		p.Redelivered = append(p.Redelivered, int32(r.Redelivered))
		p.Dead = append(p.Dead, int32(r.Dead))
		p.Dropped = append(p.Dropped, int32(r.Dropped))
		p.Expired = append(p.Expired, int32(r.Expired))
		p.Missed = append(p.Missed, int32(r.Missed))
		p.Outcomes = append(p.Outcomes, outcomeNumber(r.Outcome))
		p.Apps = append(p.Apps, r.App)
		p.Versions = append(p.Versions, r.Version)
		p.Deliveries = append(p.Deliveries, r.Delivery)
		var e ledger.Exception
		if r.Error != nil {
			e = *r.Error
		}
		p.ErrorNames = append(p.ErrorNames, e.Name)
		p.ErrorMessages = append(p.ErrorMessages, e.Message)
		p.ErrorLocations = append(p.ErrorLocations, e.Location)
		p.ErrorStacks = append(p.ErrorStacks, e.Stack)
		p.Reasons = append(p.Reasons, r.Reason)
		p.Warnings = append(p.Warnings, strings.Join(r.Warnings, "\n"))
		p.Logs = append(p.Logs, lineText(r.Lines))
		p.Fates = append(p.Fates, fateBytes(r.Fates))
		p.Acks = append(p.Acks, ackBytes(r.Acks))
	}
	return p
}

// storedLine is a line as people read it in SQL.
type storedLine struct {
	Time  time.Time `json:"time"`
	Level string    `json:"level,omitempty"`
	Text  string    `json:"text"`
}

// lineText is "" for no lines.
func lineText(list []ledger.Line) string {
	if len(list) == 0 {
		return ""
	}
	stored := make([]storedLine, len(list))
	for i := range list {
		stored[i] = storedLine(list[i])
		stored[i].Time = list[i].Time.UTC()
	}
	text, err := json.Marshal(stored)
	if err != nil {
		return "" // a time outside the years 0 to 9999, which no clock shows
	}
	return string(text)
}

func lines(text string) []ledger.Line {
	var stored []storedLine
	if text == "" || json.Unmarshal([]byte(text), &stored) != nil {
		return nil
	}
	list := make([]ledger.Line, len(stored))
	for i := range stored {
		list[i] = ledger.Line(stored[i])
	}
	return list
}

// fateSize is the size of one stored fate: id, kind, attempt, delay in milliseconds.
const fateSize = 16 + 1 + 2 + 4

func fateBytes(list []ledger.Fate) []byte {
	b := make([]byte, 0, fateSize*len(list))
	for i := range list {
		f := &list[i]
		b = append(b, f.ID[:]...)
		b = append(b, byte(slices.Index(kinds, f.Kind)+1))
		b = binary.BigEndian.AppendUint16(b, uint16(f.Attempt))
		b = binary.BigEndian.AppendUint32(b, uint32(f.Delay.Milliseconds()))
	}
	return b
}

func fates(b []byte) []ledger.Fate {
	var list []ledger.Fate
	for ; len(b) >= fateSize; b = b[fateSize:] {
		f := ledger.Fate{
			ID: queue.ID(b[:16]), Attempt: int(binary.BigEndian.Uint16(b[17:])),
			Delay: time.Duration(binary.BigEndian.Uint32(b[19:])) * time.Millisecond,
		}
		if kind := int(b[16]); kind >= 1 && kind <= len(kinds) {
			f.Kind = kinds[kind-1]
		}
		list = append(list, f)
	}
	return list
}

// ackSize is the size of one stored ack behind what all begin with: the rest of the id, attempt.
const ackSize = 8 + 2

func ackBytes(list []queue.Acked) []byte {
	if len(list) == 0 {
		return nil
	}
	b := make([]byte, 0, 8+ackSize*len(list))
	b = append(b, list[0].ID[:8]...)
	for i := range list {
		b = append(b, list[i].ID[8:]...)
		b = binary.BigEndian.AppendUint16(b, uint16(list[i].Attempt))
	}
	return b
}

func acks(b []byte) []queue.Acked {
	if len(b) < 8 {
		return nil
	}
	database, b := binary.BigEndian.Uint64(b), b[8:]
	list := make([]queue.Acked, 0, len(b)/ackSize)
	for ; len(b) >= ackSize; b = b[ackSize:] {
		list = append(list, queue.Acked{
			ID: queue.NewID(database, int64(binary.BigEndian.Uint64(b))), Attempt: int(binary.BigEndian.Uint16(b[8:])),
		})
	}
	return list
}

// named is a record with the messages that it names.
func named(row *query.SettledRecordsRow) ledger.Record {
	r := record(&query.ListRecordsRow{
		Queue: row.Queue, Number: row.Number, StartedAt: row.StartedAt, Duration: row.Duration, Delivered: row.Delivered, Acked: row.Acked,
		Retried: row.Retried, Redelivered: row.Redelivered, Dead: row.Dead, Dropped: row.Dropped, Expired: row.Expired, Missed: row.Missed,
		Outcome: row.Outcome, App: row.App, Version: row.Version, Delivery: row.Delivery, ErrorName: row.ErrorName,
		ErrorMessage: row.ErrorMessage, ErrorLocation: row.ErrorLocation, Reason: row.Reason, Warnings: row.Warnings,
	})
	r.Fates, r.Acks = fates(row.Fates), acks(row.Acks)
	return r
}

func records[Row any](rows []Row, common func(*Row) query.ListRecordsRow) []ledger.Record {
	list := make([]ledger.Record, len(rows))
	for i := range rows {
		row := common(&rows[i])
		list[i] = record(&row)
	}
	return list
}

func record(row *query.ListRecordsRow) ledger.Record {
	r := ledger.Record{
		ID:  ledger.ID{Queue: row.Queue, Number: row.Number},
		App: row.App, Version: row.Version, Delivery: row.Delivery,
		Start: row.StartedAt, Duration: time.Duration(row.Duration) * time.Microsecond,
		Delivered: int(row.Delivered), Acked: int(row.Acked), Retried: int(row.Retried), Redelivered: int(row.Redelivered),
		Dead: int(row.Dead), Dropped: int(row.Dropped), Expired: int(row.Expired), Missed: int(row.Missed), Reason: row.Reason,
	}
	if row.Outcome >= 1 && int(row.Outcome) <= len(outcomes) {
		r.Outcome = outcomes[row.Outcome-1]
	}
	if row.ErrorName != "" {
		r.Error = &ledger.Exception{Name: row.ErrorName, Message: row.ErrorMessage, Location: row.ErrorLocation}
	}
	if row.Warnings != "" {
		r.Warnings = strings.Split(row.Warnings, "\n")
	}
	return r
}
