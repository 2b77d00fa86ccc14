package d1

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/runlot/runlot/internal/core/d1"
)

// wireQuery is a statement as the client sends it.
type wireQuery struct {
	SQL    *string `json:"sql"`
	Params []param `json:"params"`
}

// param is a value as the client sends it: a blob is a list of numbers.
type param struct{ value d1.Value }

// errParam is a value that the client does not send.
var errParam = errors.New("a value is neither null, a number, a string nor a list of bytes")

// UnmarshalJSON implements json.Unmarshaler.
func (p *param) UnmarshalJSON(text []byte) error {
	switch c := text[0]; {
	case c == 'n':
		p.value = nil
	case c == '"':
		var s string
		err := json.Unmarshal(text, &s)
		p.value = s
		return err
	case c == '[':
		blob, err := decodeBlob(text)
		p.value = blob
		return err
	case c == '-' || c >= '0' && c <= '9':
		f, err := strconv.ParseFloat(string(text), 64)
		p.value = f
		return err
	default:
		return errParam
	}
	return nil
}

// decodeBlob reads a list of numbers, each of which becomes a byte as in a Uint8Array: cut off, modulo 256.
func decodeBlob(text []byte) ([]byte, error) {
	blob := make([]byte, 0, len(text)/2)
	for text = text[1:]; ; {
		text = bytes.TrimLeft(text, ", \t\r\n")
		if text[0] == ']' {
			return blob, nil
		}
		end := bytes.IndexAny(text, ", \t\r\n]")
		if n, err := strconv.ParseUint(string(text[:end]), 10, 8); err == nil {
			blob = append(blob, byte(n))
			text = text[end:]
			continue
		}
		f, err := strconv.ParseFloat(string(text[:end]), 64)
		if err != nil {
			return nil, errParam
		}
		blob = append(blob, byte(int64(math.Mod(math.Trunc(f), 256))))
		text = text[end:]
	}
}

// decode reads one statement or a list of them.
func decode(body []byte) ([]d1.Query, error) {
	var list []wireQuery
	var err error
	if text := bytes.TrimLeft(body, " \t\r\n"); len(text) > 0 && text[0] == '[' {
		err = json.Unmarshal(text, &list)
	} else {
		list = make([]wireQuery, 1)
		err = json.Unmarshal(body, &list[0])
	}
	if err != nil {
		return nil, &d1.Error{Text: "The call cannot be read: SQL is a string, and a value is null, a number, a string or bytes.", Query: -1, Cause: err}
	}
	queries := make([]d1.Query, len(list))
	for i := range list {
		if list[i].SQL == nil {
			return nil, &d1.Error{Text: "The SQL of a statement must be a string.", Query: i}
		}
		queries[i].SQL = *list[i].SQL
		if len(list[i].Params) > 0 {
			queries[i].Params = make([]d1.Value, len(list[i].Params))
		}
		for j := range list[i].Params {
			queries[i].Params[j] = list[i].Params[j].value
		}
	}
	return queries, nil
}

// Encode writes results as JSON: rows as lists beside the names of their columns, or as objects.
func Encode(results []d1.Result, rowsAndColumns bool) []byte {
	b := []byte{'['}
	for i := range results {
		r := &results[i]
		b = comma(b, i)
		b = append(b, `{"success":true,"results":`...)
		if rowsAndColumns {
			b = append(b, `{"columns":[`...)
			for j, name := range r.Columns {
				b = appendText(comma(b, j), name)
			}
			b = append(b, `],"rows":`...)
		}
		b = append(b, '[')
		for j, row := range r.Rows {
			b = appendRow(comma(b, j), r.Columns, row, rowsAndColumns)
		}
		b = append(b, ']')
		if rowsAndColumns {
			b = append(b, '}')
		}
		b = append(b, `,"meta":`...)
		b = append(appendMeta(b, &r.Meta), '}')
	}
	return append(b, ']')
}

func comma(b []byte, i int) []byte {
	if i > 0 {
		return append(b, ',')
	}
	return b
}

func appendRow(b []byte, columns []string, row []d1.Value, list bool) []byte {
	left, right := byte('{'), byte('}')
	if list {
		left, right = '[', ']'
	}
	b = append(b, left)
	for i, v := range row {
		b = comma(b, i)
		if !list {
			b = append(appendText(b, columns[i]), ':')
		}
		b = appendValue(b, v)
	}
	return append(b, right)
}

func appendValue(b []byte, v d1.Value) []byte {
	switch v := v.(type) {
	case int64:
		return strconv.AppendInt(b, v, 10)
	case float64:
		return appendFloat(b, v)
	case string:
		return appendText(b, v)
	case []byte:
		b = append(b, '[')
		for i, c := range v {
			b = strconv.AppendUint(comma(b, i), uint64(c), 10)
		}
		return append(b, ']')
	default:
		return append(b, "null"...)
	}
}

// appendFloat writes a number; JSON has no infinity, and JavaScript writes null for it.
func appendFloat(b []byte, f float64) []byte {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, f, 'g', -1, 64)
}

// appendText writes a string. What is not UTF-8 becomes U+FFFD.
func appendText(b []byte, text string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i, c := range text {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		case c < utf8.RuneSelf:
			b = append(b, text[i])
		default:
			b = utf8.AppendRune(b, c)
		}
	}
	return append(b, '"')
}

func appendMeta(b []byte, m *d1.Meta) []byte {
	number := func(name string, n int64) {
		b = append(append(append(b, `,"`...), name...), `":`...)
		b = strconv.AppendInt(b, n, 10)
	}
	b = append(b, `{"served_by":"runlot","served_by_primary":true,"total_attempts":1,"timings":{"sql_duration_ms":`...)
	b = appendFloat(b, m.Milliseconds)
	b = append(b, `},"duration":`...)
	b = appendFloat(b, m.Milliseconds)
	number("changes", m.Changes)
	number("last_row_id", m.LastRowID)
	b = strconv.AppendBool(append(b, `,"changed_db":`...), m.Changed)
	number("size_after", m.SizeAfter)
	number("rows_read", m.RowsRead)
	number("rows_written", m.RowsWritten)
	return append(b, '}')
}
