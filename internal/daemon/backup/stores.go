package backup

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/runlot/runlot/internal/adapter/sqlite/objects"
	files "github.com/runlot/runlot/internal/adapter/sqlite/r2"
	"github.com/runlot/runlot/internal/daemon/backup/archive"
	"github.com/runlot/runlot/internal/daemon/kv"
)

// copied are SQLite files that are copied one after the other.
type copied interface {
	Files() ([]string, error)
	Backup(ctx context.Context, name, path string) error
}

// namespaces copies the KV namespaces.
func (o *Options) namespaces(ctx context.Context, w *archive.Writer) error {
	all := kv.New(o.Data, o.Log)
	defer all.Close()
	return o.copyFiles(ctx, w, kvPart, "KV namespace", all)
}

// buckets copies the R2 buckets.
func (o *Options) buckets(ctx context.Context, w *archive.Writer) error {
	dir := filepath.Join(o.Data, r2Part)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	o.Progress("Copying R2 buckets", 0, 0)
	return o.scratch("r2", func(scratch string) error {
		return files.Backup(ctx, dir, scratch, func(name, file string) error { return w.AddFile(path.Join(r2Part, name), file) })
	})
}

// scratch makes a folder beside the backup for as long as do runs.
func (o *Options) scratch(what string, do func(dir string) error) error {
	dir, err := os.MkdirTemp(filepath.Dir(o.File), "."+filepath.Base(o.File)+"."+what+"-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return do(dir)
}

// objects copies what Durable Objects have stored.
func (o *Options) objects(ctx context.Context, w *archive.Writer) error {
	dir := filepath.Join(o.Data, objectsPart)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	o.Progress("Copying Durable Objects", 0, 0)
	return o.scratch("objects", func(scratch string) error {
		return objects.Backup(ctx, dir, scratch, func(name, file string) error { return w.AddFile(path.Join(objectsPart, name), file) })
	})
}

// copyFiles copies files to a part. The copies lie beside the backup for a moment, one at a time.
func (o *Options) copyFiles(ctx context.Context, w *archive.Writer, part, what string, all copied) error {
	names, err := all.Files()
	if err != nil || len(names) == 0 {
		return err
	}
	return o.scratch("copy", func(scratch string) error {
		for _, name := range names {
			o.Progress("Copying "+what+" "+strings.TrimSuffix(name, filepath.Ext(name)), 0, 0)
			file := filepath.Join(scratch, name)
			if err := all.Backup(ctx, name, file); err != nil {
				if _, gone := os.Stat(filepath.Join(o.Data, part, name)); errors.Is(gone, os.ErrNotExist) {
					continue // it was deleted meanwhile
				}
				return err
			}
			if err := errors.Join(w.AddFile(path.Join(part, name), file), os.Remove(file)); err != nil {
				return err
			}
		}
		return nil
	})
}
