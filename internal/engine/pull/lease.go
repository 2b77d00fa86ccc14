package pull

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"

	"github.com/runlot/runlot/internal/core/queue"
)

// lease is what the id of one says.
type lease struct {
	id queue.ID
	// seq is that of the message in its queue.
	seq int64
	// term and delivery tell one lease of a message from another: an engine's random number, and a count of it.
	term, delivery uint64
}

// Lengths of the parts of the id of a lease, in bytes.
const (
	leaseBytes = 16 + 3*8
	macBytes   = 16
)

// signer signs the ids of leases of a queue. It is for one goroutine.
type signer struct {
	hash  hash.Hash
	queue []byte
}

func newSigner(key []byte, queueName string) *signer {
	return &signer{hash: hmac.New(sha256.New, key), queue: append([]byte(queueName), 0)}
}

// mac appends the signature of a lease.
func (s *signer) mac(to, raw []byte) []byte {
	s.hash.Reset()
	s.hash.Write(s.queue)
	s.hash.Write(raw)
	var sum [sha256.Size]byte
	return append(to, s.hash.Sum(sum[:0])[:macBytes]...)
}

// text is the id of a lease.
func (s *signer) text(l *lease) string {
	raw := make([]byte, 0, leaseBytes+macBytes)
	raw = append(raw, l.id[:]...)
	raw = binary.BigEndian.AppendUint64(raw, uint64(l.seq))
	raw = binary.BigEndian.AppendUint64(raw, l.term)
	raw = binary.BigEndian.AppendUint64(raw, l.delivery)
	return base64.RawURLEncoding.EncodeToString(s.mac(raw, raw))
}

// parse reads the id of a lease; false for what nobody signed.
func (s *signer) parse(text string) (lease, bool) {
	var l lease
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != leaseBytes+macBytes || !hmac.Equal(s.mac(nil, raw[:leaseBytes]), raw[leaseBytes:]) {
		return l, false
	}
	n := copy(l.id[:], raw)
	l.seq = int64(binary.BigEndian.Uint64(raw[n:]))
	l.term = binary.BigEndian.Uint64(raw[n+8:])
	l.delivery = binary.BigEndian.Uint64(raw[n+16:])
	return l, true
}
