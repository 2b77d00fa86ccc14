package wrangler

import (
	"github.com/runlot/runlot/internal/config/rules"
	"github.com/runlot/runlot/internal/config/source"
	"github.com/runlot/runlot/internal/core/app"
)

// durableObjects reads the classes; a section of env inherits the migrations.
func (c *compiler) durableObjects(names rules.Names, m *app.Manifest) {
	v := c.section.Get("durable_objects")
	if v.Exists() && !v.IsObject() {
		return
	}
	v.Allow("bindings")
	o := rules.Objects{
		Spelling: rules.Snake, Binding: "name", Class: "class_name", Keys: []string{scriptName, "environment"},
		Entry: func(entry source.Value) bool { return ownScript(entry, m.Name) },
	}
	o.Read(v.Get("bindings"), c.inherited("migrations"), c.root, names, m)
	rules.NeedMain(v, c.inherited("main"), c.root, m)
}

// scriptName is the key that names the script which has a class.
const scriptName = "script_name"

// ownScript refuses a class of another script.
func ownScript(entry source.Value, appName string) bool {
	if v := entry.Get(scriptName); v.Exists() {
		if name, ok := v.Text(); ok && name != appName {
			v.Refusef("move the class into this app", "`%s`: Durable Objects of another app are not in this release", scriptName)
			return false
		}
	}
	if v := entry.Get("environment"); v.Exists() {
		v.RefuseKeyf("remove it", "`environment`: Durable Objects of another app are not in this release")
		return false
	}
	return true
}
