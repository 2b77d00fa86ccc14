// Package kv is what a KV namespace holds, is asked and answers, and the rules for that which need no storage.
package kv

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/runlot/runlot/internal/core/queue"
)

// Key is a key with what is known of it beside its value.
type Key struct {
	Name string
	// Metadata is the JSON that was put with the value; nil when there was none.
	Metadata []byte
	// Expiration is when the key is gone, in seconds since 1970; 0 is never.
	Expiration int64
}

// Entry is a key with its value.
type Entry struct {
	Key
	Value []byte
}

// Query is what a list asks for.
type Query struct {
	// Prefix is what the keys begin with, After the key behind which they stand; "" is the beginning.
	Prefix, After string
	// Limit is the most keys of the answer, from 1 to queue.KVPage.
	Limit int
}

// Page is the answer to a Query, in the order of the keys' bytes.
type Page struct {
	Keys []Key
	// Complete says that no key follows.
	Complete bool
}

// ErrFull is a put for which the disk has no room.
var ErrFull = errors.New("the disk is full")

// Error is a call that breaks a rule; Status and Text are what its caller is shown.
type Error struct {
	// Status is an HTTP status.
	Status int
	// Text is one line of ASCII.
	Text string
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

// The statuses of refusals.
const (
	badRequest = 400
	tooLarge   = 413
	uriTooLong = 414
)

// Refusef makes an Error of a call that means nothing.
func Refusef(format string, args ...any) error {
	return &Error{badRequest, fmt.Sprintf(format, args...)}
}

// CheckKey refuses what cannot be a key.
func CheckKey(name string) error {
	switch {
	case name == "":
		return Refusef("Key names must not be empty")
	case name == "." || name == "..":
		return Refusef("%q is not allowed as a key name.", name)
	case len(name) > queue.KVKeyBytes:
		return &Error{uriTooLong, fmt.Sprintf("UTF-8 encoded length of %d exceeds key length limit of %d.", len(name), queue.KVKeyBytes)}
	case !utf8.ValidString(name):
		return Refusef("a key name is UTF-8")
	}
	return nil
}

// CheckValue refuses a value of this many bytes.
func CheckValue(size int64) error {
	if size > queue.KVValueBytes {
		return TooLong(size, queue.KVValueBytes)
	}
	return nil
}

// TooLong is the refusal of a body with this many bytes.
func TooLong(size, limit int64) error {
	return &Error{tooLarge, fmt.Sprintf("Value length of %d exceeds limit of %d.", size, limit)}
}

// CheckMetadata refuses metadata that is too long or no JSON.
func CheckMetadata(text string) error {
	switch {
	case len(text) > queue.KVMetadataBytes:
		return &Error{tooLarge, fmt.Sprintf("Metadata length of %d exceeds limit of %d.", len(text), queue.KVMetadataBytes)}
	case text != "" && !json.Valid([]byte(text)):
		return Refusef("Metadata must be valid JSON.")
	}
	return nil
}

// CheckCacheTTL refuses a cacheTtl that Cloudflare does; a text that is "" names none.
func CheckCacheTTL(text string) error {
	if text == "" {
		return nil
	}
	const least = int64(queue.KVMinCacheTTL / time.Second)
	if n, err := strconv.ParseInt(text, 10, 64); err != nil || n < least {
		return Refusef("Invalid cache_ttl of %.20s. Cache TTL must be at least %d.", text, least)
	}
	return nil
}

// Expiration is when a key is gone that is put at now with these texts, of which a time to live wins; 0 is never. Both are
// whole seconds, the first one since 1970; "" names none.
func Expiration(at, ttl string, now time.Time) (int64, error) {
	const least = int64(queue.KVMinTTL / time.Second)
	// A date far beyond any that JavaScript has, so that no sum overflows.
	const most = int64(1) << 53
	switch {
	case ttl != "":
		n, err := strconv.ParseInt(ttl, 10, 64)
		if err != nil || n <= 0 || n > most {
			return 0, Refusef("Invalid expiration_ttl of %.20s. Please specify integer greater than 0.", ttl)
		}
		if n < least {
			return 0, Refusef("Invalid expiration_ttl of %.20s. Expiration TTL must be at least %d.", ttl, least)
		}
		return now.Unix() + n, nil
	case at != "":
		n, err := strconv.ParseInt(at, 10, 64)
		if err != nil || n <= now.Unix() || n > most {
			return 0, Refusef("Invalid expiration of %.20s. Please specify integer greater than the current number of seconds since the UNIX epoch.", at)
		}
		if n < now.Unix()+least {
			return 0, Refusef("Invalid expiration of %.20s. Expiration times must be at least %d seconds in the future.", at, least)
		}
		return n, nil
	}
	return 0, nil
}

// Limit reads the most keys that a list asks for; "" is queue.KVPage.
func Limit(text string) (int, error) {
	if text == "" {
		return queue.KVPage, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, Refusef("Invalid key_count_limit of %.20s. Please specify an integer greater than 0.", text)
	}
	if n > queue.KVPage {
		return 0, Refusef("Invalid key_count_limit of %.20s. Please specify an integer less than or equal to %d.", text, queue.KVPage)
	}
	return n, nil
}
