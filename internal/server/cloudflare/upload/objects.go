package upload

import (
	"slices"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
)

// migrations are those of an upload that its script has not seen yet.
type migrations struct {
	OldTag string `json:"old_tag"`
	NewTag string `json:"new_tag"`
	Steps  []struct {
		New     []string `json:"new_classes"`
		NewSQL  []string `json:"new_sqlite_classes"`
		Renamed []struct {
			From string `json:"from"`
			To   string `json:"to"`
		} `json:"renamed_classes"`
		Deleted     []string `json:"deleted_classes"`
		Transferred []any    `json:"transferred_classes"`
	} `json:"steps"`
}

// MigrationTag is the tag of the newest migration of a version; "" when it has none.
func MigrationTag(m *app.Manifest) string {
	if m.DurableObjects == nil || len(m.DurableObjects.Migrations) == 0 {
		return ""
	}
	return m.DurableObjects.Migrations[len(m.DurableObjects.Migrations)-1]
}

// objects are the Durable Objects of an upload behind a version, which may be nil.
func objects(before *app.Manifest, bindings []app.ObjectBinding, next *migrations) (*app.Objects, error) {
	o, tag := &app.Objects{}, ""
	if before != nil && before.DurableObjects != nil {
		was := before.DurableObjects
		o.Classes, o.Migrations, o.Deleted = slices.Clone(was.Classes), slices.Clone(was.Migrations), slices.Clone(was.Deleted)
		tag = MigrationTag(before)
	}
	o.Bindings = bindings
	if next != nil && len(next.Steps) > 0 {
		if next.OldTag != tag {
			return nil, fault.New(fault.Invalid, "object_migrations", "the migrations begin behind %q, and the last one of the script is %q", next.OldTag, tag).
				WithHint("deploy again, with the migrations of the live version in the configuration")
		}
		if err := next.apply(o); err != nil {
			return nil, err
		}
	}
	for _, b := range bindings {
		if o.Class(b.Class) == nil {
			return nil, fault.New(fault.Invalid, "object_class_missing", "no migration makes the class %s, which %s binds", b.Class, b.Binding).
				WithHint("add a migration with new_sqlite_classes: [%q]", b.Class)
		}
	}
	if len(o.Bindings) == 0 && len(o.Classes) == 0 && len(o.Deleted) == 0 {
		return nil, nil //nolint:nilnil // nil is an app without Durable Objects
	}
	return o, nil
}

// apply applies the steps. Of several, only the last one's tag is told: the others have none.
func (n *migrations) apply(o *app.Objects) error {
	for i := range n.Steps {
		step := &n.Steps[i]
		if len(step.Transferred) > 0 {
			return missing("`transferred_classes`, which takes over Durable Objects of another script,")
		}
		for _, class := range step.New {
			if err := o.Create(class, false); err != nil {
				return err
			}
		}
		for _, class := range step.NewSQL {
			if err := o.Create(class, true); err != nil {
				return err
			}
		}
		for _, r := range step.Renamed {
			if err := o.Rename(r.From, r.To); err != nil {
				return err
			}
		}
		for _, class := range step.Deleted {
			if err := o.Delete(class); err != nil {
				return err
			}
		}
		tag := ""
		if i == len(n.Steps)-1 {
			tag = n.NewTag
		}
		o.Migrations = append(o.Migrations, tag)
	}
	return nil
}
