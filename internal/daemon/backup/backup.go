// Package backup makes one file of everything that a celld keeps, while it runs, and a data folder of such a file.
package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/adapter/binaries"
	"github.com/runlot/runlot/internal/adapter/postgres/basebackup"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/backup/archive"
	"github.com/runlot/runlot/internal/daemon/d1"
	"github.com/runlot/runlot/internal/daemon/kv"
	"github.com/runlot/runlot/internal/daemon/r2"
	"github.com/runlot/runlot/internal/daemon/state"
)

// The parts of a backup, which are the names of what is in a data folder.
const (
	postgresPart = "postgres"
	d1Part       = d1.Folder
	kvPart       = kv.Folder
	objectsPart  = state.Objects
	r2Part       = r2.Folder
	keyPart      = "secrets.key"
	tokenPart    = "admin-token"
)

// What the embedded server keeps in its folder.
const (
	dataFolder      = "data"
	credentialsFile = "credentials.json"
)

// Options say what is backed up.
type Options struct {
	// Data is the data folder, and File the backup that is made of it. Force replaces a file that exists.
	Data, File string
	Force      bool
	// WithKey puts the key of the secrets and the token of the first admin into the backup too: without them, nobody who
	// has the file can read a secret or log in with it.
	WithKey bool
	// URLs are the databases on servers of the operator's own, by name. They are not in the backup.
	URLs map[string]string
	// Version is that of the program.
	Version string
	Log     *slog.Logger
	// Progress is told what is done, and how far that is in bytes; total is 0 where that is not known.
	Progress func(what string, done, total int64)
}

// Result is what a backup holds.
type Result struct {
	Manifest archive.Manifest `json:"manifest"`
	// FileBytes is the size of the file.
	FileBytes int64 `json:"fileBytes"`
}

// Make backs up a data folder into a file, which is there when it is whole and on the disk. The folder may be in use. PostgreSQL
// is copied as of the end of its copy, then each D1 database, KV namespace, R2 bucket and Durable Object as of a moment later: what a handler wrote before its message
// was settled is in the backup when the settlement is.
func Make(ctx context.Context, o Options) (*Result, error) {
	data, err := filepath.Abs(o.Data)
	if err != nil {
		return nil, err
	}
	o.Data = data
	if info, err := os.Stat(data); err != nil || !info.IsDir() {
		return nil, fault.New(fault.NotFound, "data_missing", "there is no data folder %s", o.Data).WithHint("name the folder that celld runs on with --data").WithCause(err)
	}
	w, err := archive.Create(o.File, o.Force, archive.Header{Created: time.Now().UTC().Truncate(time.Second), Version: o.Version})
	if err != nil {
		return nil, err
	}
	r := &Result{}
	if err := o.write(ctx, w, &r.Manifest); err != nil {
		w.Discard()
		if ctx.Err() != nil {
			err = fault.New(fault.Unavailable, "backup_stopped", "the backup was stopped; %s was not written", o.File).WithCause(err)
		}
		return nil, err
	}
	o.Progress("Bringing it to the disk", 0, 0)
	r.FileBytes, err = w.Close(&r.Manifest)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (o *Options) write(ctx context.Context, w *archive.Writer, m *archive.Manifest) error {
	m.Elsewhere = slices.Sorted(maps.Keys(o.URLs))
	free, err := o.take()
	if err != nil {
		return err
	}
	defer free()
	if err := o.postgres(ctx, w, m); err != nil {
		return err
	}
	if err := o.databases(ctx, w); err != nil {
		return err
	}
	if err := o.namespaces(ctx, w); err != nil {
		return err
	}
	if err := o.buckets(ctx, w); err != nil {
		return err
	}
	if err := o.objects(ctx, w); err != nil {
		return err
	}
	if m.Key, err = fingerprint(filepath.Join(o.Data, keyPart)); err != nil {
		return err
	}
	if !o.WithKey {
		return nil
	}
	for _, name := range []string{keyPart, tokenPart} {
		if err := w.AddFile(name, filepath.Join(o.Data, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// take locks the folder, unless somebody runs on it, who then keeps it in order.
func (o *Options) take() (free func(), err error) {
	lock, err := cluster.LockFolder(o.Data)
	if fault.KindOf(err) == fault.Conflict {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	return func() { _ = lock.Close() }, nil
}

// postgres copies the embedded server, which is started for it where it does not run.
func (o *Options) postgres(ctx context.Context, w *archive.Writer, m *archive.Manifest) error {
	dir := filepath.Join(o.Data, postgresPart)
	if _, all := o.URLs[""]; all {
		return nil // all databases are elsewhere
	}
	if _, err := os.Stat(filepath.Join(dir, dataFolder)); errors.Is(err, os.ErrNotExist) {
		return nil // it was never needed
	}
	config, err := cluster.Replication(dir)
	if fault.KindOf(err) == fault.Unavailable {
		var stop func()
		if stop, err = o.start(ctx, dir); err != nil {
			return err
		}
		defer stop()
		config, err = cluster.Replication(dir)
	}
	if err != nil {
		return err
	}
	m.Postgres, err = basebackup.Copy(ctx, basebackup.Options{
		Config: config,
		Each: func(h *tar.Header, body io.Reader) error {
			entry := *h
			entry.Name = path.Join(postgresPart, dataFolder, h.Name) //nolint:gosec // G305: a name in the backup, where Read refuses what leads out
			if h.Typeflag == tar.TypeDir {
				entry.Name += "/"
			}
			return w.Add(&entry, body)
		},
		Progress: func(done, total int64) { o.Progress("Copying PostgreSQL", done, total) },
	})
	if err != nil {
		return err
	}
	// Behind the copy: a database that it does not know yet is made anew by what is in the file.
	return w.AddFile(path.Join(postgresPart, credentialsFile), filepath.Join(dir, credentialsFile))
}

// start runs the embedded server for as long as it is copied.
func (o *Options) start(ctx context.Context, dir string) (stop func(), err error) {
	install, err := binaries.Postgres(".")
	if err != nil {
		return nil, err
	}
	c, err := cluster.Start(ctx, cluster.Options{Install: install, Dir: dir, Log: o.Log, Progress: func(text string) { o.Progress(text, 0, 0) }})
	if err != nil {
		return nil, err
	}
	return func() {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), queue.DrainTime)
		defer cancel()
		if err := c.Stop(stopCtx); err != nil {
			o.Log.Warn("PostgreSQL did not stop cleanly", "error", fault.Detail(err))
		}
	}, nil
}

// databases copies the D1 databases. The copies lie beside the backup for a moment, one at a time.
func (o *Options) databases(ctx context.Context, w *archive.Writer) error {
	if _, err := os.Stat(filepath.Join(o.Data, d1Part)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	scratch, err := os.MkdirTemp(filepath.Dir(o.File), "."+filepath.Base(o.File)+".d1-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	files := d1.New(o.Data, 0, o.Log)
	defer files.Close()
	return files.BackupAll(ctx, scratch, func(name, file string) error {
		o.Progress("Copying D1 database "+strings.TrimSuffix(name, filepath.Ext(name)), 0, 0)
		return w.AddFile(path.Join(d1Part, name), file)
	})
}

// fingerprint tells a key from others and says nothing of it; "" for a file that is missing.
func fingerprint(file string) (string, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte("runlot key " + strings.TrimSpace(string(text))))
	return hex.EncodeToString(sum[:8]), nil
}
