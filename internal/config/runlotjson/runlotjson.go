// Package runlotjson is the dialect of runlot.json: JSON with comments, keys in camelCase, and the database named by the
// app.
package runlotjson

import (
	"github.com/runlot/runlot/internal/config/rules"
	"github.com/runlot/runlot/internal/config/source"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/queue"
)

// DatabaseBinding is the name in env under which an app reaches the database that it names.
const DatabaseBinding = "DATABASE"

// exampleName stands for the app's name in hints when it has none.
const exampleName = "my-app"

// Compile reads the text of a runlot.json. On failure the error is a source.Problems with everything that is wrong.
func Compile(file string, text []byte) (*app.Manifest, source.Problems, error) {
	document, problems := source.ParseJSONC(file, text)
	if problems != nil {
		return nil, nil, problems
	}
	reader := source.Read(document)
	m := compile(reader.Root())
	warnings, err := reader.Done()
	if err != nil {
		return nil, nil, err
	}
	return m, warnings, nil
}

func compile(root source.Value) *app.Manifest {
	root.Allow(
		"$schema", "name", "main", "database", "compatibilityDate", "compatibilityFlags", "queues", "crons", "d1Databases", "kvNamespaces", "r2Buckets", "durableObjects", "migrations", "vars")
	root.Get("$schema").Text()
	m := &app.Manifest{
		Dialect: queue.Runlot, Name: rules.Name(root, "name", "an app name", exampleName), Main: rules.Main(root.Get("main")),
		CompatibilityDate:  rules.CompatibilityDate(root.Get("compatibilityDate")),
		CompatibilityFlags: rules.CompatibilityFlags(root.Get("compatibilityFlags")),
	}
	if v := root.Get("database"); v.Exists() {
		m.Database = rules.CheckName(v, "a database name")
		m.DatabaseBinding = DatabaseBinding
	}
	names := rules.Names{}
	queues := root.Get("queues")
	used := !queues.Get("producers").IsEmpty() || !queues.Get("consumers").IsEmpty()
	names.Reserve(DatabaseBinding, "the app's database")
	if used {
		require(root, queues, m.Name)
	}
	q := rules.Queues{
		Dialect: queue.Runlot, Spelling: rules.Camel,
		ConsumerKeys: []string{"retention"}, Consumer: consumer,
	}
	q.Read(queues, names, m)
	d := rules.D1{Spelling: rules.Camel}
	d.Read(root.Get("d1Databases"), names, m)
	kv := rules.KV{Key: "namespace"}
	kv.Read(root.Get("kvNamespaces"), names, m)
	r2 := rules.R2{Key: "bucket"}
	r2.Read(root.Get("r2Buckets"), names, m)
	objects := rules.Objects{Spelling: rules.Camel, Binding: "binding", Class: "class", Implied: true}
	objects.Read(root.Get("durableObjects"), root.Get("migrations"), root, names, m)
	rules.NeedMain(root.Get("durableObjects"), root.Get("main"), root, m)
	m.Vars = rules.Vars(root.Get("vars"), names)
	rules.Crons(root.Get("crons"), root.Get("main"), root, m)
	rules.Complete(m)
	return m
}

// require reports what an app with queues has to name: the code that uses them and the database that holds them.
func require(root, queues source.Value, name string) {
	if !root.Get("main").Exists() {
		queues.RefuseKeyf("add "+root.Line("main", `"src/index.ts"`),
			"queues need `main`, the entry module whose code sends and receives their messages")
	}
	if !root.Get("database").Exists() {
		if name == "" {
			name = exampleName
		}
		queues.RefuseKeyf("add "+root.Line("database", `"`+name+`"`),
			"queues need `database`, the PostgreSQL database that holds their messages")
	}
}

// consumer reads what only this dialect has, and the rule that no retries at all make sense only where failures are kept.
func consumer(entry source.Value, c *queue.Consumer) {
	rules.Retention(entry.Get("retention"), c)
	if v := entry.Get("maxRetries"); v.Exists() && c.MaxRetries == 0 && !entry.Get("deadLetterQueue").Exists() {
		c.MaxRetries = queue.DefaultMaxRetries
		v.Warnf("add "+entry.Line("deadLetterQueue", `"`+c.Queue+`-dead"`)+" to deliver once and keep the failures, or name at least 1",
			"`maxRetries` 0 without a `deadLetterQueue` is read as the default %d", queue.DefaultMaxRetries)
	}
}
