package backup

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/backup/archive"
	"github.com/runlot/runlot/internal/daemon/servers"
	"github.com/runlot/runlot/internal/daemon/state"
)

// RestoreOptions say what is restored.
type RestoreOptions struct {
	// File is the backup, and Data the data folder that is made of it, which is missing or empty. With Force it may hold
	// something, which is moved to a folder of its own inside of it.
	File, Data string
	Force      bool
	// Key is a file with the key of the secrets, for a backup that has none; "" when there is none.
	Key string
	// Progress is that of Options.
	Progress func(what string, done, total int64)
}

// Restored is what a restore has made.
type Restored struct {
	Manifest archive.Manifest `json:"manifest"`
	// Aside is the folder with what was there before; "" when there was nothing.
	Aside string `json:"aside,omitempty"`
	// KeyMissing says that the secrets of the apps cannot be read until their key is put in place.
	KeyMissing bool `json:"keyMissing,omitempty"`
}

// asidePrefix begins the name of the folder that takes what was there before; a time follows.
const asidePrefix = "before-restore-"

// staying is what is in a data folder and lasts nothing: it may be there, and stays where it is.
var staying = []string{"lock", ".gitignore", "run", state.Restoring}

// Restore makes a data folder of a backup. The whole file is checked before anything is changed. What is unpacked lies in a
// folder of its own until it is whole; as long as that exists, nothing starts on the data folder, so that a restore that is
// cut off at any moment leaves nothing that runs, and is simply made again.
func Restore(ctx context.Context, o RestoreOptions) (*Restored, error) {
	data, err := filepath.Abs(o.Data)
	if err != nil {
		return nil, err
	}
	o.Data = data
	r := &Restored{}
	// A folder without this file is nobody's, and stays untouched for now.
	var lock *os.File
	defer func() { _ = lock.Close() }()
	if _, err := os.Lstat(filepath.Join(data, "lock")); err == nil {
		if lock, err = o.take(); err != nil {
			return nil, err
		}
	}
	if _, err := o.before(); err != nil {
		return nil, err
	}
	m, err := archive.Read(o.File, func(h *tar.Header, _ io.Reader) error {
		if !slices.Contains([]string{postgresPart, d1Part, kvPart, objectsPart, r2Part, keyPart, tokenPart}, archive.PartOf(h.Name)) {
			return fault.New(fault.Invalid, "backup_damaged", "%s holds %.100q, which no backup does", o.File, h.Name)
		}
		return ctx.Err()
	}, func(done, total int64) { o.Progress("Checking the backup", done, total) })
	if err != nil {
		return nil, stopped(ctx, err)
	}
	r.Manifest = *m
	if err := o.checkKey(m); err != nil {
		return nil, err
	}
	r.KeyMissing = m.Key != "" && o.Key == "" && !m.Has(keyPart)
	//nolint:gosec // the PostgreSQL of a root process runs as another user and has to pass through
	if err := os.MkdirAll(data, 0o711); err != nil {
		return nil, unusable(data, err)
	}
	if err := o.room(m); err != nil {
		return nil, err
	}
	if lock == nil {
		if lock, err = o.take(); err != nil {
			return nil, err
		}
	}
	if r.Aside, err = o.replace(ctx, m); err != nil {
		return nil, stopped(ctx, err)
	}
	return r, nil
}

func stopped(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return fault.New(fault.Unavailable, "restore_stopped", "the restore was stopped before its end").
		WithHint("make it again; until then nothing starts on the folder if it was changed already").WithCause(err)
}

// take locks the data folder against a celld, and against another restore.
func (o *RestoreOptions) take() (*os.File, error) {
	lock, err := cluster.LockFolder(o.Data)
	if f := fault.From(err); f != nil && f.Kind == fault.Conflict {
		return nil, f.WithHint("stop it first, or restore into another folder with --data")
	}
	return lock, err
}

// before lists what the folder holds, and refuses it unless it may be moved aside.
func (o *RestoreOptions) before() ([]string, error) {
	entries, err := os.ReadDir(o.Data)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, unusable(o.Data, err)
	}
	var names []string
	for _, e := range entries {
		if !slices.Contains(staying, e.Name()) && !strings.HasPrefix(e.Name(), asidePrefix) {
			names = append(names, e.Name())
		}
	}
	if len(names) > 0 && !o.Force {
		return nil, fault.New(fault.Conflict, "data_not_empty", "%s is not empty: it holds %s", o.Data, names[0]).
			WithHint("name a new folder, or add --force: what is there is then kept in a folder %s… inside of it", asidePrefix)
	}
	return names, nil
}

// checkKey refuses a key that is not the one of the secrets in the backup.
func (o *RestoreOptions) checkKey(m *archive.Manifest) error {
	if o.Key == "" {
		return nil
	}
	found, err := fingerprint(o.Key)
	if err == nil && found == "" {
		err = fs.ErrNotExist
	}
	if err != nil {
		return fault.New(fault.Environment, "secret_key", "the key in %s cannot be read", o.Key).WithHint("name the secrets.key of the celld that was backed up").WithCause(err)
	}
	if found != m.Key {
		return fault.New(fault.Invalid, "secret_key", "the key in %s is not the one that the secrets in the backup are encrypted with", o.Key).
			WithHint("name the secrets.key of the celld that was backed up; nothing was changed")
	}
	return nil
}

// room refuses a disk that does not hold what is in the backup.
func (o *RestoreOptions) room(m *archive.Manifest) error {
	free, err := servers.FreeSpace(o.Data)
	if err != nil {
		return unusable(o.Data, err)
	}
	if need := m.Bytes() + queue.DiskReserve; free < need {
		return fault.New(fault.Environment, "disk_full", "the disk of %s has %d MiB left, and the restore needs %d MiB", o.Data, free>>20, need>>20).
			WithHint("make room, or name a folder on another disk; nothing was changed")
	}
	return nil
}

// replace unpacks, moves aside what is there and puts what was unpacked in its place.
func (o *RestoreOptions) replace(ctx context.Context, m *archive.Manifest) (aside string, err error) {
	fresh := filepath.Join(o.Data, state.Restoring)
	if err := os.RemoveAll(fresh); err != nil {
		return "", unusable(o.Data, err)
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return "", unusable(o.Data, err)
	}
	if err := syncPath(o.Data); err != nil {
		return "", unusable(o.Data, err)
	}
	if err := o.unpack(ctx, fresh, m); err != nil {
		// Nothing was moved yet: the folder is what it was.
		return "", errors.Join(err, os.RemoveAll(fresh))
	}
	names, err := o.before()
	if err != nil {
		return "", err
	}
	if len(names) > 0 {
		aside = filepath.Join(o.Data, asidePrefix+time.Now().UTC().Format("20060102T150405.000Z"))
		if err := os.Mkdir(aside, 0o711); err != nil { //nolint:gosec // the PostgreSQL of a root process runs as another user
			return "", unusable(o.Data, err)
		}
		for _, name := range names {
			o.Progress("Keeping the old "+name, 0, 0)
			if err := os.Rename(filepath.Join(o.Data, name), filepath.Join(aside, name)); err != nil {
				return "", unusable(o.Data, err)
			}
		}
	}
	entries, err := os.ReadDir(fresh)
	if err != nil {
		return "", unusable(fresh, err)
	}
	for _, e := range entries {
		o.Progress("Putting "+e.Name()+" in its place", 0, 0)
		if err := os.Rename(filepath.Join(fresh, e.Name()), filepath.Join(o.Data, e.Name())); err != nil {
			return "", unusable(o.Data, err)
		}
	}
	if err := syncPath(o.Data); err != nil {
		return "", unusable(o.Data, err)
	}
	if err := os.Remove(fresh); err != nil {
		return "", unusable(o.Data, err)
	}
	return aside, syncPath(o.Data)
}
