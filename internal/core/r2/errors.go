package r2

import (
	"fmt"

	"github.com/runlot/runlot/internal/core/queue"
)

// Codes are Cloudflare's.
const (
	codeMissing      = 10007
	codeNotEmpty     = 10008
	codeSmall        = 10011
	codeMetadata     = 10012
	codeName         = 10020
	codeMaxKeys      = 10022
	codeUpload       = 10024
	codePart         = 10025
	codeArgument     = 10029
	codePrecondition = 10031
	codeDigest       = 10037
	codeRange        = 10039
	codeBadUpload    = 10048
	codeLarge        = 100100
	codeInternal     = 10001
)

// Error is a call that breaks a rule; its caller is shown the text and the code.
type Error struct {
	// Status is an HTTP status, Code one of Cloudflare's.
	Status, Code int
	Text         string
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

// Missing is a key without an object.
func Missing() error { return &Error{404, codeMissing, "The specified key does not exist."} }

// NotEmpty is a bucket that is to be deleted and has objects.
func NotEmpty() error {
	return &Error{409, codeNotEmpty, "The bucket you tried to delete is not empty."}
}

// Precondition is a condition that does not hold.
func Precondition() error {
	return &Error{412, codePrecondition, "At least one of the pre-conditions you specified did not hold."}
}

// IsPrecondition reports whether an error is Precondition.
func (e *Error) IsPrecondition() bool { return e.Code == codePrecondition }

// NoUpload is a multipart upload that does not exist, or not any more.
func NoUpload() error {
	return &Error{400, codeUpload, "The specified multipart upload does not exist."}
}

// NoPart is a part that was not uploaded, or has another etag.
func NoPart() error {
	return &Error{400, codePart, "One or more of the specified parts could not be found."}
}

// SmallPart is a part that is not the last and too small.
func SmallPart() error {
	return &Error{400, codeSmall, "Your proposed upload is smaller than the minimum allowed object size."}
}

// UnevenParts are parts of different sizes, of which only the last may be smaller.
func UnevenParts() error {
	return &Error{400, codeBadUpload, "There was a problem with the multipart upload. All parts but the last have the same size."}
}

// LargeMetadata is metadata that is too large.
func LargeMetadata() error {
	return &Error{400, codeMetadata, "Your metadata headers exceed the maximum allowed metadata size."}
}

// Argumentf is a call that means nothing.
func Argumentf(format string, args ...any) error {
	return &Error{400, codeArgument, fmt.Sprintf(format, args...)}
}

// MaxKeys is a list of too many objects.
func MaxKeys() error {
	return &Error{400, codeMaxKeys, fmt.Sprintf("MaxKeys params must be positive integer <= %d.", queue.R2Page)}
}

// Digest is a body that is not the one whose checksum was given.
func Digest(name, given, actual string) error {
	return &Error{400, codeDigest, fmt.Sprintf("The %s checksum you specified did not match what we received. You provided a %s checksum with value: %s. Actual %s was: %s",
		name, name, given, name, actual)}
}

// TooLarge is a body that is too large.
func TooLarge() error {
	return &Error{413, codeLarge, fmt.Sprintf("Your proposed upload exceeds the maximum allowed object size of %d bytes.", queue.R2ObjectBytes)}
}

// Internal is what a caller learns of a fault that is none of its own.
func Internal(text string) *Error { return &Error{500, codeInternal, text} }

func badRange() error { return &Error{416, codeRange, "The requested range is not satisfiable"} }
