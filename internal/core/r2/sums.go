package r2

import (
	"crypto/md5"  //nolint:gosec // G501: R2's etags are MD5
	"crypto/sha1" //nolint:gosec // G505: a checksum that the caller may ask for
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"hash"
	"time"
)

// MD5 is the checksum that every object has.
const MD5 = "md5"

var hashes = map[string]func() hash.Hash{
	MD5: md5.New, "sha1": sha1.New, "sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New,
}

// Sums are checksums of what is written to them, by name.
type Sums map[string]hash.Hash

// NewSums returns those of the names that there are, and md5.
func NewSums(names ...string) Sums {
	s := Sums{MD5: md5.New()} //nolint:gosec // G401: R2's etags are MD5
	for _, name := range names {
		if s[name] == nil && hashes[name] != nil {
			s[name] = hashes[name]()
		}
	}
	return s
}

// Write implements io.Writer.
func (s Sums) Write(p []byte) (int, error) {
	for _, one := range s {
		one.Write(p) // a hash takes everything
	}
	return len(p), nil
}

// Hex is one of the checksums, in hexadecimal.
func (s Sums) Hex(name string) string { return hex.EncodeToString(s[name].Sum(nil)) }

// All are the checksums, in hexadecimal.
func (s Sums) All() map[string]string {
	all := make(map[string]string, len(s))
	for name := range s {
		all[name] = s.Hex(name)
	}
	return all
}

// ErrChanged is an object that is not any more the one that was opened.
var ErrChanged = errors.New("the object has changed since it was opened")

// Intent is a change that is about to be made where the change and its event cannot be stored in one step. It stays until
// it is known whether the change was made.
type Intent struct {
	// ID is 0 for a change that no rule asks to be told.
	ID int64
	// Action and Key are those of the event.
	Action, Key string
	// Mark tells the object that is put from any other of its key, or is the version of the one that is deleted.
	Mark string
	At   time.Time
}
