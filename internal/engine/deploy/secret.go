package deploy

import (
	"context"
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
	if !secretName.MatchString(name) {
		return fault.New(fault.Invalid, "secret_name", "%q is no name for a secret", name).
			WithHint("it is a property of env: letters, digits and underscores, not a digit first, at most 128")
	}
	if len(value) > queue.MaxSecret {
		return fault.New(fault.Limit, "secret_size", "the secret has %d bytes; the limit is %d", len(value), queue.MaxSecret)
	}
	return e.changeSecrets(ctx, appName, EventSecretPut, name, author, func() error {
		known, err := e.o.Store.Secrets(ctx, appName)
		if err != nil {
			return err
		}
		if len(known) >= queue.MaxSecrets && !slices.ContainsFunc(known, func(s Secret) bool { return s.Name == name }) {
			return fault.New(fault.Limit, "secret_count", "%s has %d secrets, and more are not possible", appName, len(known)).
				WithHint("delete one that is not needed")
		}
		sealed, err := e.o.Sealer.Seal(appName, name, value)
		if err != nil {
			return err
		}
		return e.o.Store.PutSecret(ctx, appName, &Secret{Name: name, Updated: now(), Sealed: sealed})
	})
}

// DeleteSecret forgets a secret of an app, as PutSecret sets it.
func (e *Engine) DeleteSecret(ctx context.Context, appName, name, author string) error {
	return e.changeSecrets(ctx, appName, EventSecretDeleted, name, author, func() error {
		return e.o.Store.DeleteSecret(ctx, appName, name)
	})
}

func (e *Engine) changeSecrets(ctx context.Context, appName, kind, name, author string, change func() error) error {
	done, err := e.turn(ctx, appName)
	if err != nil {
		return err
	}
	defer done()
	if err := change(); err != nil {
		return err
	}
	e.note(ctx, kind, appName, author, map[string]string{"name": name})
	live, err := e.live(ctx, appName)
	if err != nil || live == nil {
		return err
	}
	if err := e.o.Runner.Switch(ctx, e.runnable(live), func(context.Context) error { return nil }); err != nil {
		return fault.New(fault.From(err).Kind, "secret_restart", "the secret is stored, but version %d did not start with it, and goes on as it was: %s",
			live.Number, fault.From(err).Error()).WithCause(err)
	}
	e.left(appName, false)
	return nil
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

// open returns the app's secrets in the clear.
func (e *Engine) open(ctx context.Context, appName string) (map[string]string, error) {
	sealed, err := e.o.Store.Secrets(ctx, appName)
	if err != nil {
		return nil, err
	}
	secrets := make(map[string]string, len(sealed))
	for i := range sealed {
		if secrets[sealed[i].Name], err = e.o.Sealer.Open(appName, sealed[i].Name, sealed[i].Sealed); err != nil {
			return nil, err // it names the secret and the app
		}
	}
	return secrets, nil
}
