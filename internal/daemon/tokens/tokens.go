// Package tokens makes API tokens of a celld without one at hand, for who owns its data folder: it goes to the database of
// the instance, not through its API.
package tokens

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
	"github.com/runlot/runlot/internal/adapter/postgres/control"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/servers"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
)

// Author is who the events say made or revoked a token.
const Author = "celld token"

// Options say whose tokens they are.
type Options struct {
	// Data is the data folder of the celld.
	Data string
	// URLs are the databases on servers of the operator's own, by name.
	URLs map[string]string
}

// Tokens are those of one celld. They have to be closed.
type Tokens struct {
	store  *control.Store
	keeper *access.Keeper
}

// Open reaches the tokens of the celld that runs on a data folder. Faults: NotFound (data_missing, control_missing), Invalid
// (data_foreign) for a folder that belongs to another user, Unavailable while its database does not answer.
func Open(ctx context.Context, o Options) (*Tokens, error) {
	if err := owned(o.Data); err != nil {
		return nil, err
	}
	url, err := o.control()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, queue.SendTimeout)
	defer cancel()
	store, err := control.Attach(ctx, func(context.Context) (string, error) { return url, nil })
	if err != nil {
		if fault.KindOf(err) == fault.Unavailable || ctx.Err() != nil {
			err = fault.New(fault.Unavailable, "control_unreachable", "the database of this celld does not answer").
				WithHint("see that it runs and can be reached from here: celld check").WithCause(err)
		}
		return nil, err
	}
	return &Tokens{store, access.New(store)}, nil
}

// owned refuses a data folder that is not there, or is somebody else's.
func owned(data string) error {
	info, err := os.Stat(data)
	if err != nil || !info.IsDir() {
		return fault.New(fault.NotFound, "data_missing", "there is no data folder %s", data).
			WithHint("name the folder that celld runs on with --data").WithCause(err)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && !mayUse(int(stat.Uid), os.Geteuid()) {
		return fault.New(fault.Invalid, "data_foreign", "the data folder %s belongs to another user", data).
			WithHint("run it as the user that celld runs as")
	}
	return nil
}

// mayUse reports whether a user may use a folder of another: root may, and the owner. Who can merely read the folder may not.
func mayUse(owner, user int) bool { return user == 0 || user == owner }

// control is the address of the database of what celld knows of its apps: on a server of the operator's own, or on the
// embedded one, while that runs.
func (o *Options) control() (string, error) {
	for _, name := range []string{servers.ControlDatabase, ""} {
		if url, ok := o.URLs[name]; ok {
			return url, nil
		}
	}
	a, err := cluster.Locate(filepath.Join(o.Data, "postgres"), servers.ControlDatabase)
	const again = "start it, and call this again"
	if fault.KindOf(err) == fault.Unavailable {
		return "", fault.New(fault.Unavailable, "celld_stopped", "no celld runs on %s", o.Data).WithHint(again).WithCause(err)
	}
	if fault.KindOf(err) == fault.NotFound {
		return "", fault.New(fault.NotFound, "control_missing", "no celld has been ready on %s yet", o.Data).WithHint(again).WithCause(err)
	}
	if err != nil {
		return "", err
	}
	return a.OwnerURL(), nil
}

// Close ends the connections.
func (t *Tokens) Close() { t.store.Close() }

// Create makes a token, like access.Keeper does.
func (t *Tokens) Create(ctx context.Context, name, role, appName string, expires time.Time) (text string, made *access.Token, err error) {
	text, made, err = t.keeper.Create(ctx, name, access.Role(role), appName, expires)
	if err != nil {
		return "", nil, err
	}
	return text, made, t.event(ctx, deploy.EventTokenCreated, made)
}

// List returns every token, the oldest first.
func (t *Tokens) List(ctx context.Context) ([]access.Token, error) { return t.keeper.List(ctx) }

// Revoke makes a token worthless at once.
func (t *Tokens) Revoke(ctx context.Context, id string) error {
	was, err := t.keeper.Revoke(ctx, id)
	if err != nil {
		return err
	}
	return t.event(ctx, deploy.EventTokenRevoked, was)
}

func (t *Tokens) event(ctx context.Context, kind string, of *access.Token) error {
	return t.store.AddEvent(context.WithoutCancel(ctx), deploy.TokenEvent(kind, Author, of.ID, of.Name, string(of.Role), of.App), queue.KeptEvents)
}
