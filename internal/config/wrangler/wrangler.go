// Package wrangler is the dialect of wrangler.json, wrangler.jsonc and wrangler.toml: keys in snake_case, queues in the
// database that all such apps share unless a Hyperdrive binding names another. What only addresses Cloudflare's own
// platform is accepted with a warning; what an app would miss at run time is refused.
package wrangler

import (
	"slices"
	"strings"

	"github.com/runlot/runlot/internal/config/rules"
	"github.com/runlot/runlot/internal/config/source"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/queue"
)

// Compile reads the text of a wrangler file in the given syntax. env selects a section of `env`; "" is the top level. On
// failure the error is a source.Problems with everything that is wrong.
func Compile(file string, syntax source.Syntax, text []byte, env string) (*app.Manifest, source.Problems, error) {
	parse := source.ParseJSONC
	if syntax == source.TOML {
		parse = source.ParseTOML
	}
	document, problems := parse(file, text)
	if problems != nil {
		return nil, nil, problems
	}
	reader := source.Read(document)
	c := compiler{root: reader.Root(), env: env}
	m := c.compile()
	warnings, err := reader.Done()
	if err != nil {
		return nil, nil, err
	}
	return m, warnings, nil
}

type compiler struct {
	root source.Value
	// section is where bindings are read: the root, or the selected section of env.
	section source.Value
	env     string
}

var (
	sectionKeys = []string{"name", "main", "compatibility_date", "compatibility_flags", "queues", "triggers", "d1_databases", "kv_namespaces", "r2_buckets", "durable_objects", "migrations", "vars", "hyperdrive"}
	rootKeys    = append([]string{"$schema", "env"}, sectionKeys...)
	// bound are the keys that a section of env does not inherit.
	bound = []string{"queues", "d1_databases", "kv_namespaces", "r2_buckets", "durable_objects", "vars", "hyperdrive"}
)

func (c *compiler) compile() *app.Manifest {
	c.root.AllowAlso(foreign, rootKeys...)
	c.root.Get("$schema").Text()
	c.section = c.root
	c.selectEnv()
	c.refuseUnsupported()
	c.warnPlatform()
	m := &app.Manifest{
		Dialect: queue.Wrangler, Name: c.name(), Main: rules.Main(c.inherited("main")),
		CompatibilityDate:  rules.CompatibilityDate(c.inherited("compatibility_date")),
		CompatibilityFlags: rules.CompatibilityFlags(c.inherited("compatibility_flags")),
	}
	names := rules.Names{}
	queues := c.section.Get("queues")
	consumers := queues.Get("consumers")
	if !queues.Get("producers").IsEmpty() || !consumers.IsEmpty() {
		m.Database = app.DefaultDatabase
	}
	c.hyperdrive(m, names)
	if !consumers.IsEmpty() && !c.inherited("main").Exists() {
		consumers.RefuseKeyf("add "+c.root.Line("main", `"src/index.js"`)+" at the top level",
			"a consumer needs `main`, the entry module that exports a `queue` handler")
	}
	q := rules.Queues{
		Dialect: queue.Wrangler, Spelling: rules.Snake,
		ProducerKeys: []string{remoteKey}, Producer: producer,
	}
	q.Read(queues, names, m)
	d := rules.D1{Spelling: rules.Snake, Keys: []string{"preview_database_id", remoteKey}, Entry: d1}
	d.Read(c.section.Get("d1_databases"), names, m)
	kv := rules.KV{
		Key: "id", Keys: []string{"preview_id", remoteKey}, Entry: kvNamespace,
		Unnamed: func(binding string) string { return rules.Provisioned(m.Name, binding) },
	}
	kv.Read(c.section.Get("kv_namespaces"), names, m)
	r2 := rules.R2{
		Key: "bucket_name", Keys: []string{"preview_bucket_name", "jurisdiction", remoteKey}, Entry: r2Bucket,
		Unnamed: func(binding string) string { return rules.Provisioned(m.Name, binding) },
	}
	r2.Read(c.section.Get("r2_buckets"), names, m)
	c.durableObjects(names, m)
	m.Vars = rules.Vars(c.section.Get("vars"), names)
	c.triggers(m)
	rules.Complete(m)
	return m
}

func (c *compiler) selectEnv() {
	envs := c.root.Get("env")
	if envs.Exists() && !envs.IsObject() || c.env == "" {
		return
	}
	var known []string
	for _, e := range envs.Members() {
		known = append(known, e.Key())
	}
	if !slices.Contains(known, c.env) {
		hint := "the file has no `env`"
		if len(known) > 0 {
			hint = "it has " + strings.Join(known, ", ")
		}
		envs.RefuseKeyf(hint, "the file has no environment `%s`", c.env)
		return
	}
	section := envs.Get(c.env)
	if !section.IsObject() {
		return
	}
	c.section = section
	section.AllowAlso(foreign, sectionKeys...)
	var lost []string
	for _, key := range bound {
		if !c.root.Get(key).IsEmpty() && !section.Get(key).Exists() {
			lost = append(lost, "`"+key+"`")
		}
	}
	if len(lost) > 0 {
		section.Warnf("repeat them in "+section.Path()+" if it needs them",
			"environment `%s` does not inherit %s from the top level", c.env, strings.Join(lost, ", "))
	}
}

// inherited returns the value of the selected section, or else that of the top level.
func (c *compiler) inherited(key string) source.Value {
	if v := c.section.Get(key); v.Exists() {
		return v
	}
	return c.root.Get(key)
}

// name returns the app's name: a section without one of its own has the top level's, with the environment behind it.
func (c *compiler) name() string {
	if c.env == "" || c.section.Get("name").Exists() {
		return rules.Name(c.section, "name", "an app name", "my-app")
	}
	name := rules.Name(c.root, "name", "an app name", "my-app")
	if name == "" {
		return ""
	}
	full := name + "-" + c.env
	if !queue.ValidName(full) {
		c.section.RefuseKeyf("add "+c.section.Line("name", `"my-app"`)+" to "+c.section.Path(),
			"%s, the app's name with the environment behind it, is not a name: %s",
			source.Quote(full), strings.Replace(queue.NameRule, "a queue name", "an app name", 1))
	}
	return full
}

// triggers reads the crons, which a section of env inherits.
func (c *compiler) triggers(m *app.Manifest) {
	v := c.inherited("triggers")
	if v.IsNull() || !v.IsObject() {
		return
	}
	v.Allow("crons")
	if crons := v.Get("crons"); !crons.IsNull() {
		rules.Crons(crons, c.inherited("main"), c.root, m)
	}
}

func (c *compiler) hyperdrive(m *app.Manifest, names rules.Names) {
	for i, entry := range c.section.Get("hyperdrive").Items() {
		if i > 0 {
			entry.Refusef("keep one of them", "an app has one database: `hyperdrive` can have one entry")
			return
		}
		if !entry.IsObject() {
			continue
		}
		entry.AllowAlso([]string{"localConnectionString"}, "binding", "id")
		if v := entry.Get("localConnectionString"); v.Exists() {
			v.RefuseKeyf("remove it; --database-url names the PostgreSQL server",
				"`localConnectionString` cannot be used: the binding reaches the database that holds the app's queues")
		}
		m.DatabaseBinding = names.Binding(entry, "HYPERDRIVE")
		m.Database = rules.Name(entry, "id", "a database name", app.DefaultDatabase)
	}
}

func producer(entry source.Value) {
	local(entry, "messages are kept in the app's own database")
}

func d1(entry source.Value) {
	ignored(entry, "preview_database_id", "a development run has databases of its own")
	local(entry, "the database is a file of this machine")
}

func kvNamespace(entry source.Value) {
	ignored(entry, "preview_id", "a development run has namespaces of its own")
	local(entry, "the namespace is a file of this machine")
}

func r2Bucket(entry source.Value) {
	ignored(entry, "preview_bucket_name", "a development run has buckets of its own")
	ignored(entry, "jurisdiction", "objects are on the disk of this machine")
	local(entry, "the bucket is a folder of this machine")
}

// ignored warns of a text that means nothing here, and says why.
func ignored(entry source.Value, key, why string) {
	if v := entry.Get(key); v.Exists() {
		if _, ok := v.Text(); ok {
			v.Warnf("", "`%s` is ignored: %s", key, why)
		}
	}
}

// remoteKey is the key that asks for the resource of an account.
const remoteKey = "remote"

// local warns of a remote resource, and says what is used instead.
func local(entry source.Value, instead string) {
	if v := entry.Get(remoteKey); v.Exists() {
		if remote, _ := v.Boolean(); remote {
			v.Warnf("", "`%s` is ignored: %s", remoteKey, instead)
		}
	}
}
