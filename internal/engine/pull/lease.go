package pull

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

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

// mac is the signature of a lease of a queue.
func mac(key []byte, queueName string, raw []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(queueName))
	h.Write([]byte{0})
	h.Write(raw)
	return h.Sum(nil)[:macBytes]
}

// text is the id of a lease.
func (l *lease) text(key []byte, queueName string) string {
	raw := make([]byte, 0, leaseBytes+macBytes)
	raw = append(raw, l.id[:]...)
	raw = binary.BigEndian.AppendUint64(raw, uint64(l.seq))
	raw = binary.BigEndian.AppendUint64(raw, l.term)
	raw = binary.BigEndian.AppendUint64(raw, l.delivery)
	return base64.RawURLEncoding.EncodeToString(append(raw, mac(key, queueName, raw)...))
}

// parse reads the id of a lease of a queue; false for what nobody signed.
func parse(key []byte, queueName, text string) (lease, bool) {
	var l lease
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != leaseBytes+macBytes || !hmac.Equal(mac(key, queueName, raw[:leaseBytes]), raw[leaseBytes:]) {
		return l, false
	}
	n := copy(l.id[:], raw)
	l.seq = int64(binary.BigEndian.Uint64(raw[n:]))
	l.term = binary.BigEndian.Uint64(raw[n+8:])
	l.delivery = binary.BigEndian.Uint64(raw[n+16:])
	return l, true
}
