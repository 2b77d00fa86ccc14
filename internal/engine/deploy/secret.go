package deploy

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

var secretName = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]{0,127}$`)

// PutSecret sets a secret of an app, which need not be deployed yet. A version that is live is started again with it, new
// before old.
func (e *Engine) PutSecret(ctx context.Context, appName, name, value, author string) error {
	return e.ChangeSecrets(ctx, appName, map[string]*string{name: &value}, author)
}

// DeleteSecret forgets a secret of an app, as PutSecret sets it.
func (e *Engine) DeleteSecret(ctx context.Context, appName, name, author string) error {
	return e.ChangeSecrets(ctx, appName, map[string]*string{name: nil}, author)
}

// ChangeSecrets sets secrets of an app, and deletes those whose value is nil, with one start of the live version. Nothing is
// changed when one of them cannot be.
func (e *Engine) ChangeSecrets(ctx context.Context, appName string, change map[string]*string, author string) error {
	done, err := e.turn(ctx, appName)
	if err != nil {
		return err
	}
	defer done()
	known, err := e.o.Store.Secrets(ctx, appName)
	if err != nil {
		return err
	}
	list, err := e.sealed(appName, known, change)
	if err != nil {
		return err
	}
	for i := range list {
		kind := EventSecretPut
		if list[i].Sealed == nil {
			kind = EventSecretDeleted
			err = e.o.Store.DeleteSecret(ctx, appName, list[i].Name)
		} else {
			err = e.o.Store.PutSecret(ctx, appName, &list[i])
		}
		if err != nil {
			return err
		}
		e.note(ctx, kind, appName, author, map[string]string{"name": list[i].Name})
	}
	live, err := e.live(ctx, appName)
	if err != nil || live == nil || len(list) == 0 {
		return err
	}
	if err := e.o.Runner.Switch(ctx, e.runnable(live), func(context.Context) error { return nil }); err != nil {
		what := "the secret is"
		if len(list) > 1 {
			what = "the secrets are"
		}
		return fault.New(fault.From(err).Kind, "secret_restart", "%s stored, but version %d did not start with that, and goes on as it was: %s",
			what, live.Number, fault.From(err).Error()).WithCause(err)
	}
	e.left(appName, false)
	return nil
}

// sealed are changes of the secrets that are known, in order of name, ready to be stored. One that is deleted has to be known.
func (e *Engine) sealed(appName string, known []Secret, change map[string]*string) ([]Secret, error) {
	names := map[string]bool{}
	for i := range known {
		names[known[i].Name] = true
	}
	list := make([]Secret, 0, len(change))
	for _, name := range slices.Sorted(maps.Keys(change)) {
		if change[name] == nil {
			if !names[name] {
				return nil, fault.New(fault.NotFound, CodeSecretUnknown, "%s has no secret %s", appName, name).WithHint("`runlot secret list` lists them")
			}
			delete(names, name)
			list = append(list, Secret{Name: name})
			continue
		}
		value := *change[name]
		if !secretName.MatchString(name) {
			return nil, fault.New(fault.Invalid, "secret_name", "%q is no name for a secret", name).
				WithHint("it is a property of env: letters, digits and underscores, not a digit first, at most 128")
		}
		if len(value) > queue.MaxSecret {
			return nil, fault.New(fault.Limit, "secret_size", "the secret %s has %d bytes; the limit is %d", name, len(value), queue.MaxSecret)
		}
		names[name] = true
		sealed, err := e.o.Sealer.Seal(appName, name, value)
		if err != nil {
			return nil, err
		}
		list = append(list, Secret{Name: name, Updated: now(), Sealed: sealed})
	}
	if len(names) > queue.MaxSecrets {
		return nil, fault.New(fault.Limit, "secret_count", "%s would have %d secrets; the limit is %d", appName, len(names), queue.MaxSecrets).
			WithHint("delete one that is not needed")
	}
	return list, nil
}

// pending are the changes of secrets that an upload brings.
func (e *Engine) pending(ctx context.Context, u *Upload) ([]Secret, error) {
	if len(u.Secrets) == 0 && len(u.Inherited) == 0 {
		return nil, nil
	}
	inUse, err := e.o.Store.Secrets(ctx, u.Manifest.Name)
	if err != nil {
		return nil, err
	}
	known := Overlay(inUse, u.Inherited)
	change := maps.Clone(u.Secrets)
	maps.DeleteFunc(change, func(name string, value *string) bool { // what is not there need not go
		return value == nil && !slices.ContainsFunc(known, func(s Secret) bool { return s.Name == name })
	})
	own, err := e.sealed(u.Manifest.Name, known, change)
	if err != nil {
		return nil, err
	}
	list := slices.DeleteFunc(slices.Clone(u.Inherited), func(s Secret) bool { return slices.ContainsFunc(own, func(o Secret) bool { return o.Name == s.Name }) })
	return append(list, own...), nil
}

// Overlay is what secrets come to with changes of them: one without Sealed goes. They are in order of name.
func Overlay(secrets, changes []Secret) []Secret {
	list := slices.DeleteFunc(slices.Clone(secrets), func(s Secret) bool {
		return slices.ContainsFunc(changes, func(c Secret) bool { return c.Name == s.Name })
	})
	for i := range changes {
		if changes[i].Sealed != nil {
			list = append(list, changes[i])
		}
	}
	slices.SortFunc(list, func(a, b Secret) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Secrets returns the names of an app's secrets, and when each was set.
func (e *Engine) Secrets(ctx context.Context, appName string) ([]Secret, error) {
	if _, err := e.o.Store.App(ctx, appName); err != nil {
		return nil, err
	}
	return e.o.Store.Secrets(ctx, appName)
}

// lookAtSecrets says which secrets of an app the key does not open: another one than they were stored with lies in its place.
// The app runs again when they are set again, so that it is no reason to refuse anything.
func (e *Engine) lookAtSecrets(ctx context.Context, appName string) error {
	sealed, err := e.o.Store.Secrets(ctx, appName)
	if err != nil {
		return err
	}
	var shut []string
	for i := range sealed {
		if _, openErr := e.o.Sealer.Open(appName, sealed[i].Name, sealed[i].Sealed); openErr != nil {
			shut, err = append(shut, sealed[i].Name), openErr
		}
	}
	if err == nil {
		return nil
	}
	f := fault.From(err)
	return fault.New(f.Kind, f.Code, "secrets of %s were stored with another key: %s", appName, strings.Join(shut, ", ")).WithHint("%s", f.Hint).WithCause(err)
}

// open returns the secrets of a version in the clear: those of its app, and what it changes of them.
func (e *Engine) open(ctx context.Context, v *Version) (map[string]string, error) {
	inUse, err := e.o.Store.Secrets(ctx, v.App)
	if err != nil {
		return nil, err
	}
	sealed := Overlay(inUse, v.Secrets)
	secrets := make(map[string]string, len(sealed))
	for i := range sealed {
		if secrets[sealed[i].Name], err = e.o.Sealer.Open(v.App, sealed[i].Name, sealed[i].Sealed); err != nil {
			return nil, err // it names the secret and the app
		}
	}
	return secrets, nil
}
