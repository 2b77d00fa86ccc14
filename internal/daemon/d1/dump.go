package d1

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/runlot/runlot/internal/adapter/sqlite"
	"github.com/runlot/runlot/internal/adapter/sqlite/dump"
	"github.com/runlot/runlot/internal/core/d1"
	"github.com/runlot/runlot/internal/core/fault"
)

// Dumpable refuses a database that has no form as SQL, see dump.Check.
func (d *Databases) Dumpable(ctx context.Context, identity string) error {
	return dump.Check(ctx, func(ctx context.Context, queries []d1.Query) ([]d1.Result, error) {
		return d.Look(ctx, identity, queries)
	})
}

// Dump writes the database of an identity as SQL, as it is between two calls. It reads a copy, so that nobody waits for it.
func (d *Databases) Dump(ctx context.Context, identity string, o *d1.Dump, w io.Writer) error {
	dir, err := os.MkdirTemp("", "runlot-d1-")
	if err != nil {
		return fault.New(fault.Environment, "d1_folder", "no temporary folder can be made").WithCause(err)
	}
	defer os.RemoveAll(dir)
	const name = "copy"
	if d.files.Exists(identity) {
		if err := d.files.Backup(ctx, identity, filepath.Join(dir, d1.FileName(name))); err != nil {
			return err
		}
	}
	copied := sqlite.New(sqlite.Options{Dir: dir, Log: d.log})
	defer copied.Close()
	return dump.Write(ctx, func(ctx context.Context, queries []d1.Query) ([]d1.Result, error) {
		return copied.Look(ctx, name, queries)
	}, o, w)
}

// Remove deletes the database of an identity, see sqlite.Databases.
func (d *Databases) Remove(ctx context.Context, identity string) error {
	return d.files.Remove(ctx, identity)
}
