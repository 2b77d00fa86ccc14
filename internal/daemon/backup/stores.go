package backup

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/runlot/runlot/internal/adapter/sqlite/objects"
	"github.com/runlot/runlot/internal/daemon/backup/archive"
	"github.com/runlot/runlot/internal/daemon/kv"
)

// files are SQLite files that are copied one after the other.
type files interface {
	Files() ([]string, error)
	Backup(ctx context.Context, name, path string) error
}

// namespaces copies the KV namespaces.
func (o *Options) namespaces(ctx context.Context, w *archive.Writer) error {
	all := kv.New(o.Data, o.Log)
	defer all.Close()
	return o.copyFiles(ctx, w, kvPart, "KV namespace", all)
}

// objects copies what Durable Objects have stored.
func (o *Options) objects(ctx context.Context, w *archive.Writer) error {
	dir := filepath.Join(o.Data, objectsPart)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	o.Progress("Copying Durable Objects", 0, 0)
	scratch, err := os.MkdirTemp(filepath.Dir(o.File), "."+filepath.Base(o.File)+".objects-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	return objects.Backup(ctx, dir, scratch, func(name, file string) error {
		return w.AddFile(path.Join(objectsPart, name), file)
	})
}

// copyFiles copies files to a part. The copies lie beside the backup for a moment, one at a time.
func (o *Options) copyFiles(ctx context.Context, w *archive.Writer, part, what string, all files) error {
	names, err := all.Files()
	if err != nil || len(names) == 0 {
		return err
	}
	scratch, err := os.MkdirTemp(filepath.Dir(o.File), "."+filepath.Base(o.File)+".copy-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	for _, name := range names {
		o.Progress("Copying "+what+" "+strings.TrimSuffix(name, filepath.Ext(name)), 0, 0)
		file := filepath.Join(scratch, name)
		if err := all.Backup(ctx, name, file); err != nil {
			return err
		}
		if err := errors.Join(w.AddFile(path.Join(part, name), file), os.Remove(file)); err != nil {
			return err
		}
	}
	return nil
}
