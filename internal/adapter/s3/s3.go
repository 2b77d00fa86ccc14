// Package s3 keeps R2 buckets in one bucket of an S3 store: the object KEY of the bucket FILES is the object PREFIX/FILES/KEY
// there, which other programs may read and write too. What was put is there when the store says so. Before a change of which
// a queue has to be told, a journal notes it, so that the event comes also when this program dies in between.
package s3

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/r2"
)

// Journal keeps what is about to change, on the disk of this node.
type Journal interface {
	// Intend notes changes, and gives those an ID of which a queue has to be told.
	Intend(ctx context.Context, bucket string, intents []r2.Intent) error
	// Settle ends an intent: with the event that queues are told, or with nil when the change was not made.
	Settle(ctx context.Context, bucket string, id int64, e *r2.Event) error
	// Intents are those that were not settled.
	Intents(ctx context.Context, bucket string) ([]r2.Intent, error)
	Rules(ctx context.Context, bucket string) ([]r2.Rule, error)
}

// Options say where the store is.
type Options struct {
	Place
	Credentials
	// Scratch is a folder for bodies on their way. A file in it has no name, so that none is left.
	Scratch string
	Journal Journal
	// Doubtful is called when it is not known whether a change was made; Resolve finds out. It must not block.
	Doubtful func()
	// Log takes what callers must not see.
	Log *slog.Logger
}

// Place is a bucket of a store.
type Place struct {
	// Endpoint is host:port; Secure says that it speaks TLS.
	Endpoint string
	Secure   bool
	// Region is "" where it is to be asked for.
	Region string
	Bucket string
	// Prefix begins all names, with a slash at its end; "" is none.
	Prefix string
}

// Credentials open the store; Token is "" for keys that last.
type Credentials struct{ ID, Secret, Token string }

// Buckets are the buckets in a store. Its methods may be called from several goroutines.
type Buckets struct {
	o         Options
	core      *minio.Core
	transport *http.Transport
	keys      keys

	mu sync.Mutex
	// doubts are the intents of which it is not known what became of them, by bucket; nil where they were not looked up yet.
	// Guarded by mu.
	doubts map[string]map[int64]r2.Intent
}

// conn is a connection that ends when it stands still.
type conn struct{ net.Conn }

// Read implements net.Conn.
func (c conn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(queue.S3IdleTime)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// Write implements net.Conn.
func (c conn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(queue.S3IdleTime)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// New returns the buckets in a store, which it does not call.
func New(o Options) (*Buckets, error) {
	dialer := &net.Dialer{Timeout: queue.S3DialTime}
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxConnsPerHost: queue.S3Connections, MaxIdleConnsPerHost: queue.S3Connections, IdleConnTimeout: queue.S3KeepTime,
		TLSHandshakeTimeout: queue.S3DialTime, ExpectContinueTimeout: time.Second, DisableCompression: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return conn{c}, nil
		},
	}
	core, err := minio.NewCore(o.Endpoint, &minio.Options{
		Creds: credentials.NewStaticV4(o.ID, o.Secret, o.Token), Secure: o.Secure, Region: o.Region, Transport: t, MaxRetries: queue.S3Tries,
	})
	if err != nil {
		return nil, fault.New(fault.Invalid, "r2_url", "the S3 store %s cannot be used: %s", o.Endpoint, err).WithCause(err)
	}
	return &Buckets{o: o, core: core, transport: t, keys: keys{held: map[string]*key{}}, doubts: map[string]map[int64]r2.Intent{}}, nil
}

// Close gives the connections back.
func (b *Buckets) Close() { b.transport.CloseIdleConnections() }

// Check finds out whether the store can be used. Fault: Environment when it says that it cannot, Unavailable when it does not
// answer.
func (b *Buckets) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, queue.S3StartTime)
	defer cancel()
	there, err := b.core.BucketExists(ctx, b.o.Bucket)
	answer := minio.ToErrorResponse(err)
	switch {
	case err == nil && there:
		return nil
	case err == nil:
		return fault.New(fault.Environment, "r2_url", "the S3 store %s has no bucket %s", b.o.Endpoint, b.o.Bucket).WithHint("create it there; celld makes none")
	case answer.StatusCode >= http.StatusBadRequest && answer.StatusCode < http.StatusInternalServerError:
		return fault.New(fault.Environment, "r2_url", "the S3 store %s refuses the bucket %s: %s", b.o.Endpoint, b.o.Bucket, answer.Code).
			WithHint("look at the credentials and the region").WithCause(err)
	}
	return fault.New(fault.Unavailable, "r2_away", "the S3 store %s does not answer", b.o.Endpoint).WithCause(err)
}

// name is that of an object in the store.
func (b *Buckets) name(bucket, key string) string { return b.folder(bucket) + key }

// folder begins the names of a bucket's objects.
func (b *Buckets) folder(bucket string) string { return b.o.Prefix + bucket + "/" }

// checkKey refuses a key for which the store has no name.
func (b *Buckets) checkKey(bucket, key string) error {
	if most := queue.R2KeyBytes - len(b.folder(bucket)); len(key) > most {
		return r2.Argumentf("A key has at most %d bytes in this store.", most)
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0xfffe || r == 0xffff }) {
		return r2.Argumentf("A key has no control characters in this store.")
	}
	for part := range strings.SplitSeq(key, "/") {
		if part == "." || part == ".." {
			return r2.Argumentf("A key has no part %q between slashes in this store.", part)
		}
	}
	return nil
}

// version is that of an object, which a list tells too: of its etag and its time.
func version(etag string, uploaded time.Time) string {
	sum := sha256.Sum256([]byte(etag + " " + strconv.FormatInt(uploaded.Unix(), 10)))
	const bytes = 13 // as many letters as rand.Text has
	return hex.EncodeToString(sum[:bytes])
}

// failed says what a caller may see of an error of the store.
func failed(err error) error {
	if err == nil {
		return nil
	}
	switch answer := minio.ToErrorResponse(err); answer.Code {
	case minio.NoSuchKey:
		return r2.Missing()
	case "NoSuchUpload":
		return r2.NoUpload()
	case "InvalidPart", "InvalidPartOrder":
		return r2.NoPart()
	case "EntityTooSmall":
		return r2.SmallPart()
	case "EntityTooLarge":
		return r2.TooLarge()
	case minio.PreconditionFailed:
		return r2.Precondition()
	}
	return fmt.Errorf("the S3 store: %w", err)
}

// missing reports whether the store says that there is no such object.
func missing(err error) bool {
	code := minio.ToErrorResponse(err).Code
	return code == minio.NoSuchKey || code == "NotFound"
}

// refused reports whether an error says that the store did not do what it was asked; any other error leaves that open.
func refused(err error) bool {
	if _, own := errors.AsType[*r2.Error](err); own {
		return true
	}
	answer, ok := errors.AsType[minio.ErrorResponse](err)
	return ok && answer.StatusCode >= http.StatusBadRequest && answer.StatusCode < http.StatusInternalServerError && answer.StatusCode != http.StatusRequestTimeout
}

// keys are locks of objects, of those that somebody holds or waits for.
type keys struct {
	mu   sync.Mutex
	held map[string]*key // guarded by mu
}

type key struct {
	turn  chan struct{}
	users int // guarded by keys.mu
}

// lock waits until nobody else changes an object; unlock has to be called.
func (k *keys) lock(ctx context.Context, name string) (unlock func(), err error) {
	k.mu.Lock()
	one := k.held[name]
	if one == nil {
		one = &key{turn: make(chan struct{}, 1)}
		k.held[name] = one
	}
	one.users++
	k.mu.Unlock()
	leave := func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(k.held, name)
		}
	}
	select {
	case one.turn <- struct{}{}:
		return func() { <-one.turn; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
