package app

import (
	"fmt"
	"slices"

	"github.com/runlot/runlot/internal/core/fault"
)

// ObjectBinding is a binding in env to a class of Durable Objects.
type ObjectBinding struct {
	Binding string `json:"binding"`
	Class   string `json:"class"`
}

// ObjectClass is a class of Durable Objects.
type ObjectClass struct {
	// Class is the name under which the code exports it.
	Class string `json:"class"`
	// Key names what its objects have stored, within the app. It stays when the class is renamed, and no two classes ever
	// have the same, not even one after the other.
	Key string `json:"key"`
	// SQL says that its objects have SQL storage.
	SQL bool `json:"sql,omitempty"`
}

// Objects are the Durable Objects of an app.
type Objects struct {
	Bindings []ObjectBinding `json:"bindings,omitempty"`
	Classes  []ObjectClass   `json:"classes,omitempty"`
	// Migrations are the tags of the migrations that made the classes, in their order, "" for one whose tag is not known;
	// Deleted are the keys of classes that they have deleted, with all that was stored.
	Migrations []string `json:"migrations,omitempty"`
	Deleted    []string `json:"deleted,omitempty"`
}

// Class returns the class with this name, or nil.
func (o *Objects) Class(name string) *ObjectClass {
	for i := range o.Classes {
		if o.Classes[i].Class == name {
			return &o.Classes[i]
		}
	}
	return nil
}

// Create adds a class.
func (o *Objects) Create(name string, sql bool) error {
	if o.Class(name) != nil {
		return fault.New(fault.Invalid, "object_class_exists", "the class %s exists already", name)
	}
	key := name
	for n := 2; o.used(key); n++ {
		key = fmt.Sprintf("%s-%d", name, n) // no name of a class has a dash
	}
	o.Classes = append(o.Classes, ObjectClass{Class: name, Key: key, SQL: sql})
	return nil
}

func (o *Objects) used(key string) bool {
	return slices.Contains(o.Deleted, key) || slices.ContainsFunc(o.Classes, func(c ObjectClass) bool { return c.Key == key })
}

// Rename gives a class another name; what is stored stays.
func (o *Objects) Rename(from, to string) error {
	class := o.Class(from)
	switch {
	case class == nil:
		return fault.New(fault.Invalid, "object_class_missing", "there is no class %s to rename", from)
	case o.Class(to) != nil:
		return fault.New(fault.Invalid, "object_class_exists", "the class %s exists already", to)
	}
	class.Class = to
	return nil
}

// Delete deletes a class with all that its objects have stored.
func (o *Objects) Delete(name string) error {
	class := o.Class(name)
	if class == nil {
		return fault.New(fault.Invalid, "object_class_missing", "there is no class %s to delete", name)
	}
	o.Deleted = append(o.Deleted, class.Key)
	o.Classes = slices.DeleteFunc(o.Classes, func(c ObjectClass) bool { return c.Class == name })
	return nil
}

// Stored reports whether an app has, or had, Durable Objects, so that a process of it touches what they have stored.
func (m *Manifest) Stored() bool { return m.DurableObjects != nil }

// Follows refuses a manifest behind a live one of the same app, which may be nil, where what its Durable Objects have stored
// would be lost from sight: the migrations that were deployed stay, in their order, at the beginning.
func (m *Manifest) Follows(live *Manifest) error {
	if live == nil || live.DurableObjects == nil {
		return nil
	}
	var tags []string
	if m.DurableObjects != nil {
		tags = m.DurableObjects.Migrations
	}
	for i, tag := range live.DurableObjects.Migrations {
		if i >= len(tags) || tags[i] != tag && tags[i] != "" && tag != "" {
			if tag == "" {
				tag = "in the place of one without a known tag"
			}
			return fault.New(fault.Conflict, "object_migrations", "the migration %s of Durable Objects is live, and this version does not have it as number %d", tag, i+1).
				WithHint("migrations that were deployed stay in the configuration, in their order; to remove a class, add one with deleted_classes. A version from before a migration cannot be rolled back to")
		}
	}
	return nil
}
