package archive

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/runlot/runlot/internal/core/fault"
)

// Read reads a backup from its beginning to its end, hands each entry to each, and returns the manifest when the file is
// whole and every checksum is right. What each was given must not be used before that. progress is told how many bytes of
// the file were read. Fault: Invalid (backup_damaged) for a file that is not what was written.
func Read(file string, each func(h *tar.Header, body io.Reader) error, progress func(done, total int64)) (*Manifest, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fault.New(fault.Environment, "backup_unreadable", "the backup %s cannot be read", file).
			WithHint("check that it exists and may be read").WithCause(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		return nil, damaged(file, "it is not a file")
	}
	if err != nil {
		return nil, err
	}
	raw := bufio.NewReaderSize(&counted{r: f, total: info.Size(), progress: progress}, bufferBytes)
	unzipped, err := gzip.NewReader(raw)
	if err != nil {
		return nil, damaged(file, "it does not begin as one")
	}
	r := &reader{file: file, tar: tar.NewReader(unzipped)}
	m, err := r.all(each)
	if err != nil {
		return nil, err
	}
	// The end of the archive is not yet that of the file: the checksum of the compression stands behind it.
	if n, err := io.CopyN(io.Discard, unzipped, trailer); n == trailer || !errors.Is(err, io.EOF) {
		return nil, damaged(file, "it goes on behind its end")
	}
	return m, nil
}

// trailer is more than a tar file has behind its end.
const trailer = 10 << 10

type reader struct {
	file string
	tar  *tar.Reader
	sums sums
	seen map[string]bool
}

func (r *reader) all(each func(h *tar.Header, body io.Reader) error) (*Manifest, error) {
	head, err := r.tar.Next()
	if err != nil || head.Name != headerName {
		return nil, damaged(r.file, "it does not begin as one")
	}
	var begin Header
	if err := r.json(head, &begin); err != nil {
		return nil, err
	}
	if begin.Format < 1 || begin.Format > Format {
		return nil, fault.New(fault.Invalid, "backup_format", "%s was made by a newer release, %s", r.file, begin.Version).
			WithHint("restore it with that release")
	}
	r.seen = map[string]bool{}
	for {
		h, err := r.tar.Next()
		if err != nil {
			return nil, damaged(r.file, "it breaks off or is altered (%v)", err)
		}
		if h.Name == manifestName {
			return r.end(h, begin)
		}
		if err := r.check(h); err != nil {
			return nil, err
		}
		body := r.sums.take(h, r.tar)
		if err := each(h, body); err != nil {
			return nil, err
		}
		if _, err := io.Copy(io.Discard, body); err != nil {
			return nil, damaged(r.file, "it breaks off or is altered (%v)", err)
		}
	}
}

// check refuses what Writer does not write.
func (r *reader) check(h *tar.Header) error {
	name := strings.TrimSuffix(h.Name, "/")
	kind := h.Typeflag == tar.TypeReg && name == h.Name || h.Typeflag == tar.TypeDir
	if !kind || !filepath.IsLocal(name) || path.Clean(name) != name || r.seen[name] {
		return damaged(r.file, "it holds %.100q, which no backup does", h.Name)
	}
	r.seen[name] = true
	return nil
}

func (r *reader) end(h *tar.Header, begin Header) (*Manifest, error) {
	m := &Manifest{}
	if err := r.json(h, m); err != nil {
		return nil, err
	}
	found := r.sums.list()
	if !slices.Equal(found, m.Parts) {
		for i := range found {
			if !slices.Contains(m.Parts, found[i]) {
				return nil, damaged(r.file, "the checksum of its part %s is wrong", found[i].Name)
			}
		}
		return nil, damaged(r.file, "a part is missing")
	}
	if m.Format != begin.Format || m.Version != begin.Version || !m.Created.Equal(begin.Created) {
		return nil, damaged(r.file, "its beginning and its end are of two backups")
	}
	if _, err := r.tar.Next(); !errors.Is(err, io.EOF) {
		return nil, damaged(r.file, "it goes on behind its end")
	}
	return m, nil
}

func (r *reader) json(h *tar.Header, value any) error {
	text, err := io.ReadAll(io.LimitReader(r.tar, maxManifest))
	if err != nil || int64(len(text)) != h.Size || json.Unmarshal(text, value) != nil {
		return damaged(r.file, "its %s cannot be read", h.Name)
	}
	return nil
}

// counted tells how far a file was read.
type counted struct {
	r           io.Reader
	done, total int64
	progress    func(done, total int64)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.done += int64(n)
	c.progress(c.done, c.total)
	return n, err
}
