package ledger

import (
	"context"
	"encoding/base64"
	"math"
	"strconv"
	"strings"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Settled is a message that left its queue, and how.
type Settled struct {
	ID queue.ID
	// Kind is Acked, Dead or Dropped.
	Kind FateKind
	// Attempt is the delivery that it left by, counted from 1.
	Attempt int
	// Record is that of the batch, without fates, acks, lines and stacks.
	Record *Record
}

// SettledPage is a part of a list of settled messages.
type SettledPage struct {
	Messages []Settled
	// Next continues the list; "" at its end.
	Next string
}

// Settled returns a page of the messages that left a queue by a delivery, as far as records tell: those of the newest batch
// first, in the order of the batch, its acks before the others. What was acked or dropped is in no queue of the database any
// more; what is dead went to another queue, and may have come back since. A cursor of "" begins at the newest; limit is
// brought into 1 to queue.RecordPage. Faults: Invalid (record_cursor), Unavailable.
func (l *Ledger) Settled(ctx context.Context, queueName, cursor string, limit int) (SettledPage, error) {
	limit = min(max(limit, 1), queue.RecordPage)
	at := place{number: math.MaxInt64 - 1}
	if cursor != "" {
		var err error
		if at, err = parsePlace(queueName, cursor); err != nil {
			return SettledPage{}, err
		}
	}
	var page SettledPage
	for {
		var records []Record
		// A record is of one message at least, and mostly of many.
		rows := min(limit-len(page.Messages), queue.RecordSettledRows)
		err := l.read(ctx, func(ctx context.Context, s Store) (err error) {
			records, err = s.Settled(ctx, queueName, at.number+1, rows)
			return err
		})
		if err != nil {
			return SettledPage{}, err
		}
		for i := range records {
			list := records[i].Settled()
			if records[i].ID.Number == at.number {
				list = list[min(at.skip, len(list)):]
			} else {
				at = place{number: records[i].ID.Number}
			}
			if room := limit - len(page.Messages); len(list) > room {
				page.Messages = append(page.Messages, list[:room]...)
				at.skip += room
				page.Next = at.cursor(queueName)
				return page, nil
			}
			page.Messages = append(page.Messages, list...)
			at = place{number: at.number - 1}
		}
		if len(records) < rows || at.number == 0 {
			return page, nil
		}
		if len(page.Messages) == limit {
			page.Next = at.cursor(queueName)
			return page, nil
		}
	}
}

// Settled are the messages that left the queue by this batch.
func (r *Record) Settled() []Settled {
	brief := *r
	brief.Fates, brief.Acks, brief.Lines = nil, nil, nil
	list := make([]Settled, 0, len(r.Acks)+r.Dead+r.Dropped)
	for _, a := range r.Acks {
		list = append(list, Settled{ID: a.ID, Kind: Acked, Attempt: a.Attempt, Record: &brief})
	}
	for i := range r.Fates {
		if f := &r.Fates[i]; f.Kind == Dead || f.Kind == Dropped {
			list = append(list, Settled{ID: f.ID, Kind: f.Kind, Attempt: f.Attempt, Record: &brief})
		}
	}
	return list
}

// place is where a list of settled messages goes on: at the record with this number, without its first messages, or at the
// next one below.
type place struct {
	number int64
	skip   int
}

func (p place) cursor(queueName string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(ID{Queue: queueName, Number: p.number}.String() + "+" + strconv.Itoa(p.skip)))
}

func parsePlace(queueName, text string) (place, error) {
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		name, skip, _ := strings.Cut(string(decoded), "+")
		var id ID
		if id, err = ParseID(name); err == nil && id.Queue == queueName {
			if n, err := strconv.ParseUint(skip, 10, 16); err == nil {
				return place{number: id.Number, skip: int(n)}, nil
			}
		}
	}
	return place{}, fault.New(fault.Invalid, "record_cursor", "the cursor of the list of settled messages is not valid").
		WithHint("use the one that came with the page before, unchanged").WithCause(err)
}
