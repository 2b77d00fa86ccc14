package d1

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/d1"
	"github.com/runlot/runlot/internal/core/fault"
)

// read reads statements with their values.
func read(given []client.D1Statement) ([]d1.Query, error) {
	queries := make([]d1.Query, len(given))
	for i := range given {
		queries[i].SQL = given[i].SQL
		for _, text := range given[i].Params {
			v, err := value(text)
			if err != nil {
				return nil, fault.New(fault.Invalid, "d1_param", "statement %d has a value that is neither null, a number, a string nor a list of bytes", i+1).
					WithCause(err)
			}
			queries[i].Params = append(queries[i].Params, v)
		}
	}
	return queries, nil
}

// value reads a parameter. A number is a double, as it is from JavaScript.
func value(text json.RawMessage) (d1.Value, error) {
	switch text[0] {
	case 'n':
		return nil, nil //nolint:nilnil // NULL is a value
	case '"':
		var s string
		err := json.Unmarshal(text, &s)
		return s, err
	case '[':
		blob := []byte{}
		err := json.Unmarshal(text, &blob)
		return blob, err
	}
	var f float64
	err := json.Unmarshal(text, &f)
	return f, err
}

// wire is what goes over the wire of results.
func wire(results []d1.Result) []client.D1Result {
	out := make([]client.D1Result, len(results))
	for i := range results {
		r := &results[i]
		out[i] = client.D1Result{
			Columns: append([]string{}, r.Columns...), Rows: make([][]json.RawMessage, len(r.Rows)),
			Meta: client.D1Meta{
				Milliseconds: r.Meta.Milliseconds, Changes: r.Meta.Changes, LastRowID: r.Meta.LastRowID, SizeAfter: r.Meta.SizeAfter,
				Changed: r.Meta.Changed, RowsRead: r.Meta.RowsRead, RowsWritten: r.Meta.RowsWritten,
			},
		}
		for j, row := range r.Rows {
			cells := make([]json.RawMessage, len(row))
			for k, v := range row {
				cells[k] = cell(v)
			}
			out[i].Rows[j] = cells
		}
	}
	return out
}

func cell(v d1.Value) json.RawMessage {
	switch v := v.(type) {
	case int64:
		return strconv.AppendInt(nil, v, 10)
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			break // JSON has none, and JavaScript writes null
		}
		return strconv.AppendFloat(nil, v, 'g', -1, 64)
	case string:
		text, err := json.Marshal(v)
		if err != nil {
			panic("d1: a string always marshals: " + err.Error())
		}
		return text
	case []byte:
		list := []byte{'['}
		for i, c := range v {
			if i > 0 {
				list = append(list, ',')
			}
			list = strconv.AppendUint(list, uint64(c), 10)
		}
		return append(list, ']')
	}
	return json.RawMessage("null")
}
