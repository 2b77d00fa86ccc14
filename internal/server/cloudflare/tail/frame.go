package tail

import (
	"bufio"
	"crypto/sha1" //nolint:gosec // the WebSocket protocol asks for it, and no secret hangs on it
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"

	"github.com/runlot/runlot/internal/core/queue"
)

// The frames of a WebSocket, RFC 6455, by hand: wrangler sends its first one without the mask that the protocol asks for,
// which every library answers by closing the connection.

// The kinds of frame.
const (
	opText  = 0x1
	opClose = 0x8
	opPing  = 0x9
	opPong  = 0xa
)

// The reasons of an end.
const (
	closeNormal = 1000
	closeAway   = 1001
	closePolicy = 1008
	closeLarge  = 1009
)

const (
	finBit, maskBit       = 0x80, 0x80
	opBits, lengthBits    = 0x0f, 0x7f
	length16, length64    = 126, 127
	maxControl            = 125
	maskBytes, headerSize = 4, 2
)

// protocolGUID is the text with which a server shows that it knows the protocol.
const protocolGUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

// accept answers the key of a handshake.
func accept(key string) string {
	sum := sha1.Sum([]byte(key + protocolGUID)) //nolint:gosec // see above
	return base64.StdEncoding.EncodeToString(sum[:])
}

var (
	errLarge   = errors.New("a frame is larger than a tail takes")
	errControl = errors.New("a frame that ends, pings or pongs is too large, or in parts")
)

// readFrame reads a frame, with or without a mask.
func readFrame(r *bufio.Reader) (op byte, payload []byte, err error) {
	var head [headerSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	op = head[0] & opBits
	length := uint64(head[1] & lengthBits)
	if op >= opClose && (length > maxControl || head[0]&finBit == 0) {
		return 0, nil, errControl
	}
	var more [8]byte
	switch length {
	case length16:
		if _, err := io.ReadFull(r, more[:2]); err != nil {
			return 0, nil, err
		}
		length = uint64(binary.BigEndian.Uint16(more[:2]))
	case length64:
		if _, err := io.ReadFull(r, more[:]); err != nil {
			return 0, nil, err
		}
		length = binary.BigEndian.Uint64(more[:])
	}
	if length > queue.TailFrame {
		return 0, nil, errLarge
	}
	var mask [maskBytes]byte
	if head[1]&maskBit != 0 {
		if _, err := io.ReadFull(r, mask[:]); err != nil {
			return 0, nil, err
		}
	}
	payload = make([]byte, length)
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, err
	}
	for i := range payload {
		payload[i] ^= mask[i%maskBytes]
	}
	return op, payload, nil
}

// frame is one on its way to a client.
func frame(op byte, payload []byte) []byte {
	head := []byte{finBit | op}
	switch n := len(payload); {
	case n < length16:
		head = append(head, byte(n))
	case n <= 1<<16-1:
		head = binary.BigEndian.AppendUint16(append(head, length16), uint16(n))
	default:
		head = binary.BigEndian.AppendUint64(append(head, length64), uint64(n))
	}
	return append(head, payload...)
}

// closing is the frame that ends a connection, with a reason for a person.
func closing(code uint16, reason string) []byte {
	payload := binary.BigEndian.AppendUint16(nil, code)
	return frame(opClose, append(payload, reason[:min(len(reason), maxControl-len(payload))]...))
}
