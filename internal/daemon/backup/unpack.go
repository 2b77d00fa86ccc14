package backup

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/daemon/backup/archive"
)

// unpack makes the files of the backup in a folder, and brings them to the disk.
func (o *RestoreOptions) unpack(ctx context.Context, dir string, m *archive.Manifest) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return unusable(dir, err)
	}
	defer root.Close()
	var done int64
	what := "Unpacking"
	o.Progress(what, 0, m.Bytes())
	// It was checked, but the file may be another one by now: its checksums are looked at again.
	_, err = archive.Read(o.File, func(h *tar.Header, body io.Reader) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := place(root, h, body); err != nil {
			return unusable(dir, err)
		}
		done += h.Size
		o.Progress(what, done, m.Bytes())
		return nil
	}, func(int64, int64) {})
	if err != nil {
		return err
	}
	if o.Key != "" {
		text, err := os.ReadFile(o.Key)
		if err != nil {
			return unusable(o.Key, err)
		}
		if err := root.WriteFile(keyPart, text, 0o600); err != nil {
			return unusable(dir, err)
		}
	}
	o.Progress("Bringing it to the disk", 0, 0)
	if err := syncTree(ctx, dir); err != nil {
		return unusable(dir, err)
	}
	return nil
}

// place makes one file or folder, with the folders above it.
func place(root *os.Root, h *tar.Header, body io.Reader) error {
	name := strings.TrimSuffix(h.Name, "/")
	if part := archive.PartOf(name); part == postgresPart {
		mode := fs.FileMode(0o700)
		if os.Geteuid() == 0 {
			mode = 0o711 // the server's user goes through it to its data
		}
		if err := root.Mkdir(part, mode); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if h.Typeflag == tar.TypeDir {
		return root.MkdirAll(name, 0o700)
	}
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fs.FileMode(h.Mode)&0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, body)
	return errors.Join(err, file.Close())
}

// syncTree brings a folder and all that is in it to the disk.
func syncTree(ctx context.Context, dir string) error {
	return filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		return syncPath(name)
	})
}

// syncPath brings a file, or the names in a folder, to the disk.
func syncPath(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// unusable is the fault of a folder that cannot be written to.
func unusable(dir string, err error) error {
	if fault.From(err).Kind != fault.Internal {
		return err
	}
	reason := err
	if p, ok := errors.AsType[*os.PathError](err); ok {
		reason = p.Err
	}
	return fault.New(fault.Environment, "restore_failed", "the folder %s cannot be restored to: %s", dir, reason).
		WithHint("make it writable and make room on its disk, then restore again").WithCause(err)
}
