package search

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/core/filter"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// never is a condition that no message meets.
const never = "false"

// builder gathers the parameters of a statement.
type builder struct {
	q    *store.Search
	args []any
}

// arg adds a parameter and returns its place, with a type.
func (b *builder) arg(value any, kind string) string {
	b.args = append(b.args, value)
	return "$" + strconv.Itoa(len(b.args)) + "::" + kind
}

// statement writes a step of a search. Each level of the statement ends with OFFSET 0, so that what it computes is computed
// once for each row: the terms that are cheap, then the document of what they let through, then the terms about it.
func statement(queueID int32, q *store.Search) (sql string, args []any) {
	b := &builder{q: q}
	place := "queue_id = " + b.arg(queueID, "int") + " AND seq > " + b.arg(q.After, "bigint") + " AND seq <= " + b.arg(q.UpTo, "bigint")
	if q.Only != nil {
		place += " AND seq = ANY(" + b.arg(q.Only, "bigint[]") + ")"
	}
	bytes := int64(math.MaxInt64)
	if q.Filter.NeedsBody() {
		bytes = int64(q.Bytes)
	}
	rows, most := b.arg(q.Rows, "bigint"), b.arg(bytes, "bigint")
	cheap, texts, values := []string{"true"}, []string(nil), []string{"cheap"}
	for i := range q.Filter.Terms {
		t := &q.Filter.Terms[i]
		condition := "coalesce(" + b.condition(t) + ", false)"
		if t.Not {
			condition = "NOT " + condition
		}
		switch t.Field {
		case filter.Body:
			values = append(values, condition)
		case filter.Text:
			texts = append(texts, condition)
		case filter.State, filter.ID, filter.Age, filter.Attempts, filter.Size, filter.Source, filter.Reason:
			cheap = append(cheap, condition)
		}
	}
	doc := "NULL::jsonb"
	if len(values) > 1 {
		doc = "CASE WHEN cheap AND format = 1 THEN runlot_queue.body_as_jsonb(format, body) END"
	}
	return `SELECT count(*), coalesce(max(seq), 0), coalesce(sum(octet_length(body)), 0)::bigint,
		coalesce(array_agg(seq ORDER BY seq) FILTER (WHERE ok), '{}'), coalesce(array_agg(accepted ORDER BY seq) FILTER (WHERE ok), '{}'),
		coalesce(array_agg(place ORDER BY seq) FILTER (WHERE ok), '{}')
	FROM (SELECT seq, accepted, place, body, ` + strings.Join(values, " AND ") + ` AS ok
	FROM (SELECT seq, accepted, place, body, cheap, ` + doc + ` AS doc
	FROM (SELECT seq, accepted, place, format, body, ` + strings.Join(append(cheap, texts...), " AND ") + ` AS cheap
	FROM (SELECT *, row_number() OVER w AS place, sum(octet_length(body)) OVER w - octet_length(body) AS before
	FROM (SELECT seq, coalesce(origin, seq) AS accepted, sent_at, visible_at, failures, source_id, reason, format, body
		FROM runlot_queue.message WHERE ` + place + ` ORDER BY seq LIMIT ` + rows + `) m
	WINDOW w AS (ORDER BY seq ROWS UNBOUNDED PRECEDING)) r
	WHERE before <= ` + most + ` OFFSET 0) c OFFSET 0) d OFFSET 0) x`, b.args
}

// backwards are the comparisons of a time that say the same of the time since it.
var backwards = map[filter.Op]string{filter.Is: "=", filter.More: "<", filter.AtLeast: "<=", filter.Less: ">", filter.AtMost: ">="}

// comparison is the operator of SQL.
func comparison(op filter.Op) string {
	if op == filter.Is {
		return "="
	}
	return string(op)
}

// condition is a term without its Not; null counts as false.
func (b *builder) condition(t *filter.Term) string {
	switch t.Field {
	case filter.State:
		return b.state(t.Text)
	case filter.ID:
		id, err := queue.ParseID(t.Text)
		if err != nil || id.Store() != b.q.Database {
			return never
		}
		return "accepted = " + b.arg(id.Seq(), "bigint")
	case filter.Age:
		return "sent_at " + backwards[t.Op] + " " + b.arg(time.UnixMilli(b.q.Now-t.Number), "timestamptz")
	case filter.Attempts:
		return "failures " + comparison(t.Op) + " " + b.arg(t.Number, "bigint")
	case filter.Size:
		return "octet_length(body) " + comparison(t.Op) + " " + b.arg(t.Number, "bigint")
	case filter.Source:
		id, ok := b.q.Sources[t.Text]
		if !ok {
			return never
		}
		return "source_id = " + b.arg(id, "int")
	case filter.Reason:
		return `strpos(lower(reason COLLATE "C"), ` + b.arg(filter.Fold(t.Text), "text") + ") > 0"
	case filter.Text:
		return b.text(t.Text)
	case filter.Body:
		return b.value(t)
	}
	return never
}

func (b *builder) state(state string) string {
	flying := never
	if len(b.q.Flying) > 0 {
		flying = "seq = ANY(" + b.arg(b.q.Flying, "bigint[]") + ")"
	}
	if state == filter.InFlight {
		return flying
	}
	delayed := "coalesce(visible_at > " + b.arg(time.UnixMilli(b.q.Now), "timestamptz") + ", false)"
	if state == filter.Visible {
		delayed = "NOT " + delayed
	}
	return delayed + " AND NOT " + flying
}

// text looks for bytes. Read as Latin 1, every byte is a character and only the ASCII capitals become small, whatever the
// body is; only a NUL is no character in PostgreSQL.
func (b *builder) text(text string) string {
	var latin strings.Builder
	for _, c := range []byte(filter.Fold(text)) {
		latin.WriteRune(rune(c))
	}
	return `CASE WHEN position('\x00'::bytea IN body) = 0
		THEN strpos(lower(convert_from(body, 'LATIN1') COLLATE "C"), ` + b.arg(latin.String(), "text") + `) > 0
		ELSE position(` + b.arg([]byte(text), "bytea") + ` IN body) > 0 END`
}

// value looks at a place in the document: a list contains its elements, and a scalar itself.
func (b *builder) value(t *filter.Term) string {
	node := "(doc #> " + b.arg(t.Path, "text[]") + ")"
	if t.Op != filter.Is {
		return "CASE WHEN jsonb_typeof(" + node + ") = 'number' THEN " + node + "::numeric " + comparison(t.Op) + " " + b.arg(t.Text, "numeric") + " END"
	}
	values := t.Values()
	conditions := make([]string, len(values))
	for i, v := range values {
		conditions[i] = node + " @> " + b.arg(v, "jsonb")
	}
	return "(" + strings.Join(conditions, " OR ") + ")"
}
