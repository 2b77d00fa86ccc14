package r2

import (
	"crypto/rand" // names of files that no two have
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/ncruces/go-sqlite3"

	"github.com/runlot/runlot/internal/adapter/sqlite"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/r2"
)

// piece is a part of an object's body that lies in a file of its own.
type piece struct {
	Blob string `json:"blob"`
	Size int64  `json:"size"`
}

// blob is a body on its way to the disk.
type blob struct {
	id     string
	folder string
	file   *os.File
	size   int64
	sums   r2.Sums
	// placed says that the file has its name.
	placed bool
}

// Receive writes a body to the disk, where no object has it yet. checksums names those that are computed beside MD5.
func (b *Buckets) Receive(bucket string, body io.Reader, checksums ...string) (_ r2.Body, err error) {
	if err := b.clean(bucket); err != nil {
		return nil, err
	}
	received := &blob{id: rand.Text(), folder: b.folder(bucket), sums: r2.NewSums(checksums...)}
	temporary := filepath.Join(received.folder, temporaryFolder)
	if err := os.MkdirAll(temporary, 0o700); err != nil {
		return nil, err
	}
	if received.file, err = os.OpenFile(filepath.Join(temporary, received.id), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err != nil {
		return nil, err
	}
	received.size, err = io.Copy(io.MultiWriter(received.sums, received.file), io.LimitReader(body, queue.R2ObjectBytes+1))
	if err == nil && received.size > queue.R2ObjectBytes {
		err = r2.TooLarge()
	}
	if err != nil {
		received.Discard()
		return nil, err
	}
	return received, nil
}

// own returns a body as it is here.
func own(body r2.Body) (*blob, error) {
	b, ok := body.(*blob)
	if !ok {
		return nil, fmt.Errorf("a body of another kind: %T: %w", body, errors.ErrUnsupported)
	}
	return b, nil
}

// Sum implements r2.Body.
func (b *blob) Sum(name string) string { return b.sums.Hex(name) }

func (b *blob) path() string {
	if b.placed {
		return place(b.folder, b.id)
	}
	return filepath.Join(b.folder, temporaryFolder, b.id)
}

// place is where a file lies; the first letters of its name spread the files over folders.
func place(folder, id string) string { return filepath.Join(folder, id[:2], id) }

// keep brings the file to the disk under its name.
func (b *blob) keep() error {
	if b.size == 0 {
		b.Discard()
		return nil
	}
	if err := errors.Join(b.file.Sync(), b.file.Close()); err != nil {
		return err
	}
	b.file = nil
	target := place(b.folder, b.id)
	dir := filepath.Dir(target)
	if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		if err := errors.Join(sqlite.SyncFolder(b.folder), sqlite.SyncFolder(filepath.Dir(b.folder))); err != nil {
			return err
		}
	}
	if err := os.Rename(b.path(), target); err != nil {
		return err
	}
	b.placed = true
	return sqlite.SyncFolder(dir)
}

// pieces are what an object or a part is made of.
func (b *blob) pieces() []piece {
	if b.size == 0 {
		return nil
	}
	return []piece{{b.id, b.size}}
}

// Discard implements r2.Body.
func (b *blob) Discard() {
	if b.file != nil {
		_ = b.file.Close() // it is not kept
		b.file = nil
	}
	_ = os.Remove(b.path()) // what stays is deleted at the next start
}

// drop deletes a body whose commit failed, unless the disk did: then the commit may be there all the same.
func (b *blob) drop(err error) {
	if _, disk := errors.AsType[*sqlite3.Error](err); !disk {
		b.Discard()
	}
}

// body reads a range of pieces, one file after the other.
type body struct {
	folder string
	pieces []piece
	// skip and left are bytes: before the range in the first piece that is left, and of the range.
	skip, left int64
	file       *os.File
}

// Read implements io.Reader.
func (b *body) Read(into []byte) (int, error) {
	for {
		switch {
		case b.left == 0:
			return 0, io.EOF
		case b.file != nil:
			n, err := b.file.Read(into[:min(int64(len(into)), b.left)])
			b.left -= int64(n)
			if err == nil {
				return n, nil
			}
			if !errors.Is(err, io.EOF) {
				return n, err
			}
			_ = b.file.Close() // it was only read
			b.file = nil
			if n > 0 {
				return n, nil
			}
		case len(b.pieces) == 0:
			return 0, io.ErrUnexpectedEOF
		case b.skip >= b.pieces[0].Size:
			b.skip -= b.pieces[0].Size
			b.pieces = b.pieces[1:]
		default:
			file, err := os.Open(place(b.folder, b.pieces[0].Blob))
			if err != nil {
				return 0, err
			}
			b.file, b.pieces = file, b.pieces[1:]
			if _, err := file.Seek(b.skip, io.SeekStart); err != nil {
				return 0, err
			}
			b.skip = 0
		}
	}
}

// Close implements io.Closer.
func (b *body) Close() error {
	if b.file == nil {
		return nil
	}
	return b.file.Close()
}
