// Package port picks ports for programs that a test starts, which cannot say themselves where they listen.
package port

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// The range is one that no system gives to connections, or to listeners that name no port.
const (
	first = 10_000
	ports = 20_000
)

// Free picks a port of 127.0.0.1 on which nobody listens, and keeps it for the test until its end: nobody else who asks here,
// in this process or in another one, gets it. What keeps it is a socket of UDP, which is in the way of no listener.
func Free(t *testing.T) int {
	t.Helper()
	for range 1_000 {
		number := first + rand.IntN(ports)
		address := fmt.Sprintf("127.0.0.1:%d", number)
		kept, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			_ = kept.Close()
			continue
		}
		_ = listener.Close()
		t.Cleanup(func() { _ = kept.Close() })
		return number
	}
	t.Fatal("no port is free")
	return 0
}
