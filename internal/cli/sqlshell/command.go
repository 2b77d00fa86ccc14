package sqlshell

import (
	"context"
	"fmt"
	"strings"
)

const help = `\dt         tables and views
\d NAME     columns and indexes of one
\q          leave
`

const tables = `select n.nspname as "Schema", c.relname as "Name",
  case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'f' then 'foreign table' else 'table' end as "Type"
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'v', 'm', 'f') and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
  and has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')
order by 1, 2`

const counts = `select (select count(*) from pg_catalog.pg_attribute where attrelid = pg_catalog.to_regclass($1::text)),
  (select count(*) from pg_catalog.pg_index where indrelid = pg_catalog.to_regclass($1::text))`

const columns = `select a.attname as "Column", pg_catalog.format_type(a.atttypid, a.atttypmod) as "Type",
  case when a.attnotnull then 'not null' else '' end as "Nullable",
  coalesce(pg_catalog.pg_get_expr(d.adbin, d.adrelid), '') as "Default"
from pg_catalog.pg_attribute a left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = pg_catalog.to_regclass($1::text) and a.attnum > 0 and not a.attisdropped
order by a.attnum`

const indexes = `select c.relname as "Index", pg_catalog.pg_get_indexdef(i.indexrelid) as "Definition"
from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indexrelid
where i.indrelid = pg_catalog.to_regclass($1::text)
order by 1`

// command runs a line that begins with a backslash.
func (s *session) command(ctx context.Context, line string) (quit bool, err error) {
	name, argument, _ := strings.Cut(strings.TrimRight(line, "; \t"), " ")
	argument = strings.TrimSpace(argument)
	switch {
	case name == `\q`:
		return true, nil
	case name == `\?`:
		s.shell.printf("%s", help)
		return false, nil
	case name == `\dt` && argument == "", name == `\d` && argument == "":
		return false, s.run(ctx, tables)
	case name == `\d`:
		return false, s.describe(ctx, argument)
	default:
		return false, fmt.Errorf("there is no command %s; \\? lists those that there are", line)
	}
}

// describe prints the columns of a table or view, and its indexes.
func (s *session) describe(ctx context.Context, name string) error {
	given := [][]byte{[]byte(name)}
	found := s.conn.ExecParams(ctx, counts, given, nil, nil, nil).Read()
	if found.Err != nil {
		return found.Err
	}
	if string(found.Rows[0][0]) == "0" {
		return fmt.Errorf("there is no table or view %s", name)
	}
	if err := s.print(s.conn.ExecParams(ctx, columns, given, nil, nil, nil)); err != nil || string(found.Rows[0][1]) == "0" {
		return err
	}
	return s.print(s.conn.ExecParams(ctx, indexes, given, nil, nil, nil))
}
