package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/d1"
)

// D1 reaches the D1 databases of an app through the API. Version is the id of a version that need not be live; "" is the one
// that runs.
type D1 struct {
	API          *client.Client
	App, Version string
}

// Run runs queries in the database of a name, as one transaction.
func (r *D1) Run(ctx context.Context, database string, queries []d1.Query, readOnly bool) ([]d1.Result, error) {
	q := &client.D1Query{Statements: make([]client.D1Statement, len(queries)), ReadOnly: readOnly}
	for i := range queries {
		s := &q.Statements[i]
		s.SQL = queries[i].SQL
		for _, v := range queries[i].Params {
			text, err := json.Marshal(v)
			if err != nil {
				return nil, fmt.Errorf("a parameter: %w", err)
			}
			s.Params = append(s.Params, text)
		}
	}
	answer, err := r.API.D1Query(ctx, r.App, r.Version, database, q)
	if e, ok := errors.AsType[*client.Error](err); ok && e.Statement != nil {
		return nil, &d1.Error{Text: e.Message, Query: *e.Statement} // what the answer said, and no more
	}
	if err != nil {
		return nil, err
	}
	results := make([]d1.Result, len(answer))
	for i := range answer {
		a := &answer[i]
		results[i] = d1.Result{Columns: a.Columns, Rows: make([][]d1.Value, len(a.Rows)), Meta: d1.Meta(a.Meta)}
		for j, row := range a.Rows {
			values := make([]d1.Value, len(row))
			for k, text := range row {
				if values[k], err = d1Value(text); err != nil {
					return nil, fmt.Errorf("a value of the answer: %w", err)
				}
			}
			results[i].Rows[j] = values
		}
	}
	return results, nil
}

// d1Value reads a value of a row.
func d1Value(text json.RawMessage) (d1.Value, error) {
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
	if !strings.ContainsAny(string(text), ".eE") {
		if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			return n, nil
		}
	}
	return strconv.ParseFloat(string(text), 64)
}
