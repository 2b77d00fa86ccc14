package client

import (
	"context"
	"encoding/json"
	"net/url"
)

// D1Database is a D1 database that an app declares.
type D1Database struct {
	Binding string `json:"binding"`
	Name    string `json:"name"`
	// ID is its identity, which apps share a database by.
	ID string `json:"id"`
	// Bytes is its size; 0 while nothing has used it.
	Bytes int64 `json:"bytes"`
	// MigrationsTable is the table of it that says which migrations are applied.
	MigrationsTable string `json:"migrations_table"`
}

// D1Statement is one statement of SQL with the values of its parameters.
type D1Statement struct {
	SQL string `json:"sql"`
	// Params are null, numbers, strings, and lists of numbers for blobs.
	Params []json.RawMessage `json:"params,omitempty"`
}

// D1Query asks for statements to be run as one transaction.
type D1Query struct {
	Statements []D1Statement `json:"statements" minItems:"1"`
	// ReadOnly refuses what writes, and makes no database.
	ReadOnly bool `json:"read_only,omitempty"`
}

// D1Result is what a statement returned.
type D1Result struct {
	Columns []string `json:"columns"`
	// Rows have null, numbers, strings, and lists of numbers for blobs.
	Rows [][]json.RawMessage `json:"rows"`
	Meta D1Meta              `json:"meta"`
}

// D1Meta is what D1 says about a statement beside its rows.
type D1Meta struct {
	Milliseconds float64 `json:"duration"`
	// Changes counts inserted, changed and deleted rows.
	Changes   int64 `json:"changes"`
	LastRowID int64 `json:"last_row_id"`
	// SizeAfter is the size of the database in bytes.
	SizeAfter   int64 `json:"size_after"`
	Changed     bool  `json:"changed_db"`
	RowsRead    int64 `json:"rows_read"`
	RowsWritten int64 `json:"rows_written"`
}

// D1Results are what the statements of a call returned, one for each.
type D1Results struct {
	Results []D1Result `json:"results"`
}

// D1Migration is a migration that was applied to a database. Applied is when, as the database says it (UTC).
type D1Migration struct {
	Name    string `json:"name"`
	Applied string `json:"applied"`
}

// D1Databases lists the D1 databases of an app: of the version with an id or, for "", of the one that runs.
func (c *Client) D1Databases(ctx context.Context, app, version string) ([]D1Database, error) {
	return items[D1Database](ctx, c, at("apps", app, "d1"), ofVersion(version))
}

// D1Query runs statements in a D1 database, which is named by its name, binding or id, as one transaction of which nothing is
// left when one fails; Error.Statement says which. A token that may only look may only read.
func (c *Client) D1Query(ctx context.Context, app, version, database string, q *D1Query) ([]D1Result, error) {
	var done D1Results
	if err := c.call(ctx, "POST", at("apps", app, "d1", database, "query"), ofVersion(version), q, &done); err != nil {
		return nil, err
	}
	return done.Results, nil
}

// D1Migrations lists the migrations that were applied to a D1 database.
func (c *Client) D1Migrations(ctx context.Context, app, version, database string) ([]D1Migration, error) {
	return items[D1Migration](ctx, c, at("apps", app, "d1", database, "migrations"), ofVersion(version))
}

func ofVersion(version string) url.Values {
	q := url.Values{}
	if version != "" {
		q.Set("version", version)
	}
	return q
}
