package r2

import (
	"io"

	"github.com/runlot/runlot/internal/core/queue"
)

// Body is a body that was received and that no object has yet. Who has one hands it to a bucket, or discards it.
type Body interface {
	// Sum is a checksum in hexadecimal, of those that were asked for and of md5.
	Sum(name string) string
	Discard()
}

// Object is an object that is read. Its body stays until Close.
type Object interface {
	Info() *Info
	// Body returns a range of the body. The caller closes it, before the object. ErrChanged says that the object is to be
	// opened again.
	Body(r Range) (io.ReadCloser, error)
	Close()
}

// Put is an object that is to be.
type Put struct {
	Key    string
	HTTP   *HTTP
	Custom []Field
	// OnlyIf has to hold for what is there; nil always does.
	OnlyIf *Condition
	Body   Body
}

// Part is a part of an upload as its caller names it.
type Part struct {
	Number int
	Etag   string
}

// StoredPart is a part of an upload as it was received.
type StoredPart struct {
	Size int64
	Etag string
}

// CheckParts refuses parts that cannot become an object. all are those that were uploaded, by number.
func CheckParts(all map[int]StoredPart, chosen []Part) error {
	last := 0
	for i, want := range chosen {
		p, ok := all[want.Number]
		if !ok || p.Etag != want.Etag || want.Number <= last {
			return NoPart()
		}
		last = want.Number
		if i < len(chosen)-1 {
			if p.Size < queue.R2PartBytes {
				return SmallPart()
			}
			if p.Size != all[chosen[0].Number].Size {
				return UnevenParts()
			}
		} else if i > 0 && p.Size > all[chosen[0].Number].Size {
			return UnevenParts()
		}
	}
	return nil
}
