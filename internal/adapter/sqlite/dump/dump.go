// Package dump writes a SQLite database as the SQL that makes it again.
package dump

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/runlot/runlot/internal/core/d1"
	"github.com/runlot/runlot/internal/core/fault"
)

// Look runs queries that only read, on a database that nobody changes meanwhile.
type Look func(ctx context.Context, queries []d1.Query) ([]d1.Result, error)

// object is what a database declares.
type object struct{ kind, name, table, sql string }

// tableKind is the kind of a table.
const tableKind = "table"

// pageBytes is about how much of a table is in memory at a time, mostRows how many rows.
const (
	pageBytes = 1 << 20
	mostRows  = 2000
)

// Check refuses a database that has no form as SQL. Fault: Invalid (d1_virtual).
func Check(ctx context.Context, look Look) error {
	_, err := objects(ctx, look)
	return err
}

func objects(ctx context.Context, look Look) ([]object, error) {
	results, err := look(ctx, []d1.Query{{SQL: `SELECT type, name, tbl_name, sql FROM sqlite_master
		WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\_%' ESCAPE '\' AND tbl_name NOT LIKE '\_cf\_%' ESCAPE '\' ORDER BY rowid`}})
	if err != nil {
		return nil, err
	}
	var list []object
	for _, row := range results[0].Rows {
		o := object{text(row[0]), text(row[1]), text(row[2]), text(row[3])}
		if o.kind == tableKind && strings.HasPrefix(strings.ToUpper(o.sql), "CREATE VIRTUAL") {
			return nil, fault.New(fault.Invalid, "d1_virtual", "the table %s is a virtual one, which cannot be exported", o.name).
				WithHint("drop it, export, and make it again; a backup of celld has it whole")
		}
		list = append(list, o)
	}
	return list, nil
}

func text(v d1.Value) string { s, _ := v.(string); return s }

// Write writes the database: tables, their rows, and what hangs on them.
func Write(ctx context.Context, look Look, o *d1.Dump, w io.Writer) error {
	all, err := objects(ctx, look)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(one object) bool { return len(o.Tables) > 0 && !slices.Contains(o.Tables, one.table) })
	for _, name := range o.Tables {
		if !slices.ContainsFunc(all, func(one object) bool { return one.kind == tableKind && one.name == name }) {
			return fault.New(fault.Invalid, "d1_table", "the database has no table %s", name)
		}
	}
	out := bufio.NewWriter(w)
	_, _ = out.WriteString("PRAGMA defer_foreign_keys=TRUE;\n") // a failure is told by the last flush too
	schema := func(tables bool) {
		for _, one := range all {
			if !o.NoSchema && (one.kind == tableKind) == tables {
				_, _ = out.WriteString(one.sql + ";\n")
			}
		}
	}
	// All tables first: a row may refer to one that was made later.
	schema(true)
	for _, one := range all {
		if one.kind == tableKind && !o.NoData {
			if err := rows(ctx, look, one.name, out); err != nil {
				return err
			}
		}
	}
	if !o.NoData {
		if err := counters(ctx, look, all, out); err != nil {
			return err
		}
	}
	schema(false)
	return out.Flush()
}

// counters writes how far tables with AUTOINCREMENT have counted.
func counters(ctx context.Context, look Look, written []object, out *bufio.Writer) error {
	results, err := look(ctx, []d1.Query{{SQL: "SELECT count(*) FROM sqlite_master WHERE name = 'sqlite_sequence'"}})
	if err != nil || results[0].Rows[0][0] == int64(0) {
		return err
	}
	if results, err = look(ctx, []d1.Query{{SQL: "SELECT name, seq FROM sqlite_sequence ORDER BY name"}}); err != nil {
		return err
	}
	for _, row := range results[0].Rows {
		if slices.ContainsFunc(written, func(o object) bool { return o.kind == tableKind && o.name == row[0] }) {
			_, _ = fmt.Fprintf(out, "DELETE FROM sqlite_sequence WHERE name = %s;\nINSERT INTO sqlite_sequence (name,seq) VALUES(%s,%s);\n", literal(row[0]), literal(row[0]), literal(row[1]))
		}
	}
	return nil
}

// rows writes the rows of a table.
func rows(ctx context.Context, look Look, table string, out *bufio.Writer) error {
	results, err := look(ctx, []d1.Query{{SQL: "PRAGMA table_xinfo(" + quoted(table) + ")"}})
	if err != nil {
		return err
	}
	var columns, taken []string
	hidden := slices.Index(results[0].Columns, "hidden")
	for _, row := range results[0].Rows {
		name := text(row[slices.Index(results[0].Columns, "name")])
		taken = append(taken, strings.ToLower(name))
		if row[hidden] == int64(0) { // others are computed
			columns = append(columns, quoted(name))
		}
	}
	list := strings.Join(columns, ",")
	before := "INSERT INTO " + quoted(table) + " (" + list + ") VALUES("
	row := rowID(taken)
	page := pages{look: look, table: quoted(table), list: list, row: row}
	if _, err := look(ctx, []d1.Query{{SQL: "SELECT " + row + " FROM " + quoted(table) + " LIMIT 0"}}); err != nil || row == "" {
		page.row = "" // a table without row ids
	}
	for {
		list, err := page.next(ctx)
		if err != nil || len(list) == 0 {
			return err
		}
		for _, values := range list {
			_, _ = out.WriteString(before)
			for i, v := range values {
				if i > 0 {
					_ = out.WriteByte(',')
				}
				_, _ = out.WriteString(literal(v))
			}
			if _, err := out.WriteString(");\n"); err != nil {
				return err
			}
		}
	}
}

// rowID is a name of the row id that no column has; "" when there is none.
func rowID(taken []string) string {
	for _, name := range []string{"rowid", "_rowid_", "oid"} {
		if !slices.Contains(taken, name) {
			return name
		}
	}
	return ""
}

// pages reads a table in pieces.
type pages struct {
	look             Look
	table, list, row string
	last             d1.Value
	seen, count      int64
}

func (p *pages) next(ctx context.Context) ([][]d1.Value, error) {
	p.count = max(p.count, 1)
	list, err := p.read(ctx, p.count)
	if err != nil && p.count > 1 {
		list, err = p.read(ctx, 1) // rows that are larger than those before
		p.count = 1
	}
	if err != nil || len(list) == 0 {
		return nil, err
	}
	p.seen += int64(len(list))
	size := 0
	for i, values := range list {
		if p.row != "" {
			p.last = values[0]
			list[i] = values[1:]
		}
		for _, v := range list[i] {
			size += bytes(v)
		}
	}
	p.count = int64(min(max(pageBytes*len(list)/max(size, 1), 1), mostRows, len(list)*4+1))
	return list, nil
}

func (p *pages) read(ctx context.Context, count int64) ([][]d1.Value, error) {
	// Values of a call are numbers as JavaScript has them: a row id goes into the text.
	limit := " LIMIT " + strconv.FormatInt(count, 10)
	q := d1.Query{SQL: "SELECT " + p.list + " FROM " + p.table + limit + " OFFSET " + strconv.FormatInt(p.seen, 10)}
	if p.row != "" {
		where := ""
		if last, ok := p.last.(int64); ok {
			where = " WHERE " + p.row + " > " + strconv.FormatInt(last, 10)
		}
		q.SQL = "SELECT " + p.row + "," + p.list + " FROM " + p.table + where + " ORDER BY " + p.row + limit
	}
	results, err := p.look(ctx, []d1.Query{q})
	if err != nil {
		return nil, err
	}
	return results[0].Rows, nil
}

// bytes is about what a value takes.
func bytes(v d1.Value) int {
	const plain = 8
	switch v := v.(type) {
	case string:
		return len(v) + plain
	case []byte:
		return 4*len(v) + plain // lists of numbers, where results are bounded
	}
	return plain
}

// quoted is a name in SQL.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// literal is a value in SQL.
func literal(v d1.Value) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return number(v)
	case []byte:
		return "X'" + hex.EncodeToString(v) + "'"
	case string:
		if strings.ContainsRune(v, 0) {
			return "CAST(X'" + hex.EncodeToString([]byte(v)) + "' AS TEXT)" // a text ends at such a character
		}
		return "'" + strings.ReplaceAll(v, "'", "''") + "'"
	}
	panic(fmt.Sprintf("dump: a value of the type %T is none of SQLite's", v))
}

func number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "NULL" // what SQLite keeps of it
	case math.IsInf(v, 1):
		return "9e999"
	case math.IsInf(v, -1):
		return "-9e999"
	}
	text := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text
}
