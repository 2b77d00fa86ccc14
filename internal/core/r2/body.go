package r2

import "io"

// Body is a body that was received and that no object has yet. Who has one hands it to a bucket, or discards it.
type Body interface {
	// Sum is a checksum in hexadecimal, of those that were asked for and of md5.
	Sum(name string) string
	Discard()
}

// Object is an object that is read. Its body stays until Close.
type Object interface {
	Info() *Info
	// Body returns a range of the body. The caller closes it, before the object.
	Body(r Range) io.ReadCloser
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
