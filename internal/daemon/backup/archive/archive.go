// Package archive is the form of a backup: a tar file, compressed by gzip, that begins with a header and ends with a
// manifest, which has a checksum of each part. A part is what has the same first element in its names. What is in between
// can be looked at and taken out with tar.
package archive

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
)

// Format is the version of the form. One that is higher cannot be read.
const Format = 1

// The first and the last entry.
const (
	headerName   = "runlot-backup.json"
	manifestName = "manifest.json"
)

// maxManifest is the most bytes of the first and of the last entry.
const maxManifest = 1 << 20

// Header is the first entry.
type Header struct {
	Format  int       `json:"format"`
	Created time.Time `json:"created"`
	// Version is that of the program that made the backup.
	Version string `json:"version"`
}

// Manifest is the last entry.
type Manifest struct {
	Header
	// Postgres is the version of the embedded server; "" when it is not in the backup.
	Postgres string `json:"postgres,omitempty"`
	// Key tells the key of the secrets from others, also where it is not in the backup; "" when there is none.
	Key string `json:"key,omitempty"`
	// Elsewhere are the databases on servers of the operator's own, which the backup does not have; "" is any database.
	Elsewhere []string `json:"elsewhere,omitempty"`
	Parts     []Part   `json:"parts"`
}

// Part is the sum of what is in one part.
type Part struct {
	Name string `json:"name"`
	// Entries counts files and folders, Bytes what the files hold.
	Entries int   `json:"entries"`
	Bytes   int64 `json:"bytes"`
	// SHA256 is over the entries in their order: name, kind, mode and size of each, then what it holds.
	SHA256 string `json:"sha256"`
}

// Bytes is the size of all parts.
func (m *Manifest) Bytes() int64 {
	var sum int64
	for i := range m.Parts {
		sum += m.Parts[i].Bytes
	}
	return sum
}

// Has reports whether the backup has a part.
func (m *Manifest) Has(name string) bool {
	for i := range m.Parts {
		if m.Parts[i].Name == name {
			return true
		}
	}
	return false
}

// sums are the checksums of the parts, as they come.
type sums struct {
	parts  []Part
	hashes []hash.Hash
}

// take returns a reader of an entry that counts and hashes what is read of it.
func (s *sums) take(h *tar.Header, body io.Reader) io.Reader {
	name := PartOf(h.Name)
	at := -1
	for i := range s.parts {
		if s.parts[i].Name == name {
			at = i
		}
	}
	if at < 0 {
		at = len(s.parts)
		s.parts, s.hashes = append(s.parts, Part{Name: name}), append(s.hashes, sha256.New())
	}
	s.parts[at].Entries++
	s.parts[at].Bytes += h.Size
	_, _ = fmt.Fprintf(s.hashes[at], "%s\x00%c\x00%o\x00%d\x00", h.Name, h.Typeflag, h.Mode, h.Size) // a hash takes everything
	return io.TeeReader(body, s.hashes[at])
}

// list returns the parts that were taken.
func (s *sums) list() []Part {
	for i := range s.parts {
		s.parts[i].SHA256 = hex.EncodeToString(s.hashes[i].Sum(nil))
	}
	return s.parts
}

// PartOf is the part to which an entry belongs.
func PartOf(name string) string {
	part, _, _ := strings.Cut(name, "/")
	return part
}

// damaged is the fault of a file that is no whole backup.
func damaged(path, format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "backup_damaged", "%s is no whole backup: %s", path, fmt.Sprintf(format, args...)).
		WithHint("nothing was changed; use another backup, or another copy of this one")
}
