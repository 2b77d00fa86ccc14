package sqlite

import (
	"errors"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/runlot/runlot/internal/core/queue"
)

// guard decides what the SQL of callers may do, statement by statement, and notes what the current one does.
type guard struct {
	// off lets everything through, for the statements of this program.
	off bool
	// selects says that the statement is, or holds, a SELECT; reads that it reads a table; transaction that it was refused
	// for beginning or ending one.
	selects, reads, transaction bool
	// settings says that the call changed a setting of the connection.
	settings bool
}

// prepare begins a statement.
func (g *guard) prepare() { g.selects, g.reads, g.transaction = false, false, false }

// actions are what statements may do. What is not here is refused: temporary tables, ATTACH, transactions of the caller's.
var actions = map[sqlite3.AuthorizerActionCode]bool{
	sqlite3.AUTH_CREATE_INDEX: true, sqlite3.AUTH_CREATE_TABLE: true, sqlite3.AUTH_CREATE_TRIGGER: true, sqlite3.AUTH_CREATE_VIEW: true,
	sqlite3.AUTH_DELETE: true, sqlite3.AUTH_DROP_INDEX: true, sqlite3.AUTH_DROP_TABLE: true, sqlite3.AUTH_DROP_TRIGGER: true,
	sqlite3.AUTH_DROP_VIEW: true, sqlite3.AUTH_DROP_VTABLE: true, sqlite3.AUTH_INSERT: true, sqlite3.AUTH_READ: true,
	sqlite3.AUTH_UPDATE: true, sqlite3.AUTH_ALTER_TABLE: true, sqlite3.AUTH_REINDEX: true, sqlite3.AUTH_ANALYZE: true,
	sqlite3.AUTH_RECURSIVE: true,
}

// modules are the virtual tables that callers may make.
var modules = map[string]bool{"fts5": true, "fts5vocab": true}

// pragmas are those that callers may use. True stands for one that, given a value, is a setting of the connection.
var pragmas = map[string]bool{
	"case_sensitive_like": true, "ignore_check_constraints": true, "legacy_alter_table": true, "recursive_triggers": true,
	"reverse_unordered_selects": true, "defer_foreign_keys": false, "foreign_keys": false, "data_version": false,
	"foreign_key_check": false, "foreign_key_list": false, "index_info": false, "index_list": false, "index_xinfo": false,
	"optimize": false, "page_size": false, "quick_check": false, "table_info": false, "table_list": false, "table_xinfo": false,
}

// functions are those that tell of the program and not of the database.
var functions = map[string]bool{
	"fts5": true, "load_extension": true, "sqlite_compileoption_get": true, "sqlite_compileoption_used": true, "sqlite_log": true,
	"sqlite_source_id": true, "sqlite_version": true,
}

// authorize implements SQLite's authorizer.
func (g *guard) authorize(action sqlite3.AuthorizerActionCode, name, second, _, _ string) sqlite3.AuthorizerReturnCode {
	ok := g.off || actions[action] && !reserved(name)
	switch action { //nolint:exhaustive // the other actions are allowed or refused by the table alone
	case sqlite3.AUTH_SELECT:
		g.selects, ok = true, true
	case sqlite3.AUTH_READ:
		g.reads = true
	case sqlite3.AUTH_TRANSACTION, sqlite3.AUTH_SAVEPOINT:
		g.transaction = !ok
	case sqlite3.AUTH_CREATE_VTABLE:
		ok = ok || modules[strings.ToLower(second)]
	case sqlite3.AUTH_FUNCTION:
		ok = ok || !functions[strings.ToLower(second)]
	case sqlite3.AUTH_PRAGMA:
		setting, known := pragmas[strings.ToLower(name)]
		g.settings = g.settings || !g.off && setting && second != ""
		ok = ok || known
	}
	if !ok {
		return sqlite3.AUTH_DENY
	}
	return sqlite3.AUTH_OK
}

// reserved reports whether a name belongs to the platform, as D1 has it.
func reserved(name string) bool {
	const prefix = "_cf_"
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// restrict puts the connection under the rules for callers.
func (c *conn) restrict() error {
	for id, value := range map[sqlite3.LimitCategory]int{
		sqlite3.LIMIT_LENGTH: queue.D1ValueBytes, sqlite3.LIMIT_SQL_LENGTH: queue.D1SQLBytes, sqlite3.LIMIT_COLUMN: queue.D1Columns,
		sqlite3.LIMIT_EXPR_DEPTH: queue.D1Depth, sqlite3.LIMIT_COMPOUND_SELECT: queue.D1Compound,
		sqlite3.LIMIT_FUNCTION_ARG: queue.D1Arguments, sqlite3.LIMIT_ATTACHED: 0, sqlite3.LIMIT_LIKE_PATTERN_LENGTH: queue.D1Pattern,
		sqlite3.LIMIT_VARIABLE_NUMBER: queue.D1Params, sqlite3.LIMIT_TRIGGER_DEPTH: queue.D1TriggerDepth, sqlite3.LIMIT_WORKER_THREADS: 0,
	} {
		c.Limit(id, value)
	}
	var errs error
	for op, value := range map[sqlite3.DBConfig]bool{
		sqlite3.DBCONFIG_DEFENSIVE: true, sqlite3.DBCONFIG_ENABLE_LOAD_EXTENSION: false, sqlite3.DBCONFIG_ENABLE_FTS3_TOKENIZER: false,
		// Double quotes around a string, as D1 reads them.
		sqlite3.DBCONFIG_DQS_DML: true, sqlite3.DBCONFIG_DQS_DDL: true,
	} {
		_, err := c.Config(op, value)
		errs = errors.Join(errs, err)
	}
	return errors.Join(errs, c.SetAuthorizer(c.guard.authorize))
}
