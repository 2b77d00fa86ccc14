package rules

import (
	"regexp"

	"github.com/runlot/runlot/internal/config/source"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
)

// Objects reads the declarations of Durable Objects of one dialect.
type Objects struct {
	Spelling Spelling
	// Binding and Class are the keys of a binding's name in env and of its class.
	Binding, Class string
	// Keys are keys of a binding that only this dialect has; Entry reads them, and reports whether the binding counts.
	Keys  []string
	Entry func(entry source.Value) bool
	// Implied says that a class that is bound, or changed by a migration, and that no migration makes, has been there from
	// the beginning, with SQL storage.
	Implied bool
}

// Read reads the bindings and the migrations. root is where a migration would be added.
func (o *Objects) Read(bindings, migrations, root source.Value, names Names, m *app.Manifest) {
	objects := &app.Objects{}
	places := map[string]source.Value{}
	for _, entry := range bindings.Items() {
		if b, ok := o.binding(entry, names); ok {
			objects.Bindings = append(objects.Bindings, b)
			if _, earlier := places[b.Class]; !earlier {
				places[b.Class] = entry.Get(o.Class)
			}
		}
	}
	items := migrations.Items()
	if o.Implied {
		o.imply(objects, items)
	}
	seen := map[string]bool{}
	for _, entry := range items {
		if entry.IsObject() {
			o.migration(entry, objects, seen)
		}
	}
	for _, b := range objects.Bindings {
		if objects.Class(b.Class) == nil {
			o.missing(places[b.Class], root, b.Class)
		}
	}
	if len(objects.Bindings) > 0 || len(objects.Classes) > 0 || len(objects.Deleted) > 0 {
		m.DurableObjects = objects
	}
}

// missing reports a bound class that no migration makes.
func (o *Objects) missing(at, root source.Value, class string) {
	at.Refusef("add to `migrations` one with "+root.Line("tag", `"v1"`)+" and "+root.Line(o.Spelling("newSqliteClasses"), `["`+class+`"]`),
		"no migration makes the class %s, or the last one that names it deletes it", class)
}

var className = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// class reads the name of a class.
func class(v source.Value) (string, bool) {
	name, ok := v.Text()
	if ok && !className.MatchString(name) {
		v.Refusef(`write it as the code exports it, like "Room"`, "%s is no name of a class: letters, digits and _, and no digit first", source.Quote(name))
		return "", false
	}
	return name, ok
}

func (o *Objects) binding(entry source.Value, names Names) (app.ObjectBinding, bool) {
	var b app.ObjectBinding
	if !entry.IsObject() {
		return b, false
	}
	entry.Allow(append([]string{o.Binding, o.Class}, o.Keys...)...)
	b.Binding = names.bound(entry, o.Binding, "ROOM")
	if v := entry.Get(o.Class); v.Exists() {
		b.Class, _ = class(v)
	} else {
		entry.Refusef("add "+entry.Line(o.Class, `"Room"`), "`%s`, the name of the class, is missing", o.Class)
	}
	if o.Entry != nil && !o.Entry(entry) {
		return b, false
	}
	return b, b.Binding != "" && b.Class != ""
}

// imply creates the classes that have been there before the first migration.
func (o *Objects) imply(objects *app.Objects, migrations []source.Value) {
	made := map[string]bool{}
	create := func(name string) {
		if !made[name] {
			made[name] = true
			_ = objects.Create(name, true) // it is new
		}
	}
	silent := func(v source.Value) string {
		if text, ok := v.Peek(); ok && className.MatchString(text) {
			return text
		}
		return ""
	}
	for _, entry := range migrations {
		for _, key := range []string{"newClasses", "newSqliteClasses"} {
			for _, v := range entry.Get(o.Spelling(key)).PeekItems() {
				made[silent(v)] = true
			}
		}
		for _, v := range entry.Get(o.Spelling("renamedClasses")).PeekItems() {
			if from := silent(v.Get("from")); from != "" {
				create(from)
			}
			made[silent(v.Get("to"))] = true
		}
		for _, v := range entry.Get(o.Spelling("deletedClasses")).PeekItems() {
			if name := silent(v); name != "" {
				create(name)
			}
		}
	}
	for _, b := range objects.Bindings {
		create(b.Class)
	}
}

// migration applies one migration.
func (o *Objects) migration(entry source.Value, objects *app.Objects, seen map[string]bool) {
	keys := []string{
		"tag", o.Spelling("newClasses"), o.Spelling("newSqliteClasses"), o.Spelling("renamedClasses"), o.Spelling("deletedClasses"),
	}
	transferred := o.Spelling("transferredClasses")
	entry.AllowAlso([]string{transferred}, keys...)
	if v := entry.Get(transferred); !v.IsEmpty() {
		v.RefuseKeyf("remove it", "`%s`: Durable Objects of another app cannot be taken over", transferred)
	}
	tag := entry.Get("tag")
	if !tag.Exists() {
		entry.Refusef("add "+entry.Line("tag", `"v1"`), "`tag`, the name of the migration, is missing")
	}
	if name, ok := tag.Text(); ok {
		if seen[name] {
			tag.Refusef("give each migration a tag of its own", "two migrations have the tag %s", source.Quote(name))
		}
		seen[name] = true
		objects.Migrations = append(objects.Migrations, name)
	}
	apply := func(at source.Value, err error) {
		if err != nil {
			at.Refusef("", "%s", fault.From(err).Message)
		}
	}
	for i, key := range keys[1:3] {
		for _, v := range entry.Get(key).Items() {
			if name, ok := class(v); ok {
				apply(v, objects.Create(name, i == 1))
			}
		}
	}
	for _, v := range entry.Get(o.Spelling("renamedClasses")).Items() {
		if !v.IsObject() {
			continue
		}
		v.Allow("from", "to")
		from, okFrom := class(v.Get("from"))
		to, okTo := class(v.Get("to"))
		switch {
		case !v.Get("from").Exists() || !v.Get("to").Exists():
			v.Refusef(`write { "from": "Old", "to": "New" }`, "a renamed class needs `from` and `to`")
		case okFrom && okTo:
			apply(v, objects.Rename(from, to))
		}
	}
	for _, v := range entry.Get(o.Spelling("deletedClasses")).Items() {
		if name, ok := class(v); ok {
			apply(v, objects.Delete(name))
		}
	}
}

// NeedMain reports classes of an app that has no code; v is where they are declared.
func NeedMain(v, main, root source.Value, m *app.Manifest) {
	if m.DurableObjects != nil && len(m.DurableObjects.Bindings) > 0 && !main.Exists() {
		v.RefuseKeyf("add "+root.Line("main", `"src/index.js"`), "Durable Objects need `main`, the entry module that exports their classes")
	}
}
