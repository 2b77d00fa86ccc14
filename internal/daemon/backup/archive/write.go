package archive

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/runlot/runlot/internal/core/fault"
)

// Writer writes a backup. It is under a temporary name until Close.
type Writer struct {
	path, temp string
	force      bool
	header     Header
	file       *os.File
	buffer     *bufio.Writer
	gzip       *gzip.Writer
	tar        *tar.Writer
	sums       sums
}

// bufferBytes is how much is written to the disk at once.
const bufferBytes = 1 << 20

// Create begins a backup at path. A file that exists there is a conflict, unless force is set: then Close replaces it.
func Create(path string, force bool, h Header) (*Writer, error) {
	h.Format = Format
	w := &Writer{path: path, force: force, header: h}
	if err := w.vacant(); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".part-*") // with the mode 0600
	if err != nil {
		return nil, unwritable(path, err)
	}
	w.file, w.temp = file, file.Name()
	w.buffer = bufio.NewWriterSize(file, bufferBytes)
	// Of what the fastest level leaves, the others take a third at a fifth of its speed: the backup would wait for them.
	w.gzip, err = gzip.NewWriterLevel(w.buffer, gzip.BestSpeed)
	if err == nil {
		w.tar = tar.NewWriter(w.gzip)
		err = w.json(headerName, h)
	}
	if err != nil {
		w.Discard()
		return nil, unwritable(path, err)
	}
	return w, nil
}

func (w *Writer) vacant() error {
	info, err := os.Lstat(w.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return unwritable(w.path, err)
	case !info.Mode().IsRegular():
		return fault.New(fault.Conflict, "backup_exists", "%s is not a file", w.path).WithHint("name a new file")
	case !w.force:
		return fault.New(fault.Conflict, "backup_exists", "%s exists already", w.path).WithHint("name a new file, or replace it with --force")
	}
	return nil
}

// Add writes an entry: a file or a folder, with its name in the backup. Of the header counts what a restore needs.
func (w *Writer) Add(h *tar.Header, body io.Reader) error {
	entry := &tar.Header{Name: h.Name, Typeflag: h.Typeflag, Mode: h.Mode & 0o700, Size: h.Size, ModTime: h.ModTime, Format: tar.FormatPAX}
	if entry.Typeflag == tar.TypeDir {
		entry.Size = 0
	}
	if err := w.tar.WriteHeader(entry); err != nil {
		return unwritable(w.path, err)
	}
	_, err := io.Copy(sink{w}, w.sums.take(entry, body))
	return err
}

// sink tells the errors of the backup's own file from those of what it is made of.
type sink struct{ w *Writer }

func (s sink) Write(p []byte) (int, error) {
	n, err := s.w.tar.Write(p)
	if err != nil {
		err = unwritable(s.w.path, err)
	}
	return n, err
}

// AddFile writes the file at path as an entry.
func (w *Writer) AddFile(name, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return w.Add(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: info.Size(), ModTime: info.ModTime()}, file)
}

func (w *Writer) json(name string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	if err := w.tar.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(text)), ModTime: w.header.Created}); err != nil {
		return err
	}
	_, err = w.tar.Write(text)
	return err
}

// Close writes the manifest, whose header and parts it fills in, brings all to the disk and gives the file its name. It
// returns the size of the file in bytes.
func (w *Writer) Close(m *Manifest) (size int64, err error) {
	defer func() {
		if err != nil {
			w.Discard()
		}
	}()
	m.Header, m.Parts = w.header, w.sums.list()
	err = w.json(manifestName, m)
	for _, step := range []func() error{w.tar.Close, w.gzip.Close, w.buffer.Flush, w.file.Sync} {
		if err == nil {
			err = step()
		}
	}
	if err != nil {
		return 0, unwritable(w.path, err)
	}
	info, err := w.file.Stat()
	if err != nil {
		return 0, unwritable(w.path, err)
	}
	// Somebody else may have made the file meanwhile.
	if err := w.vacant(); err != nil {
		return 0, err
	}
	if err := errors.Join(w.file.Close(), os.Rename(w.temp, w.path)); err != nil {
		return 0, unwritable(w.path, err)
	}
	return info.Size(), syncFolder(filepath.Dir(w.path))
}

// Discard removes a backup that is not closed.
func (w *Writer) Discard() {
	_ = w.file.Close()
	_ = os.Remove(w.temp)
}

func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func unwritable(path string, err error) error {
	reason := err
	if p, ok := errors.AsType[*os.PathError](err); ok {
		reason = p.Err
	}
	return fault.New(fault.Environment, "backup_unwritable", "the backup cannot be written to %s: %s", path, reason).
		WithHint("name a file in a folder that you may write to, on a disk with room").WithCause(err)
}
