package port_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/runlot/runlot/test/port"
)

// TestNoPortIsGivenTwice while a test goes on, and a program can listen on each.
func TestNoPortIsGivenTwice(t *testing.T) {
	given := map[int]bool{}
	for range 500 { // of 20,000: without care, some would come twice
		n := port.Free(t)
		if given[n] {
			t.Fatalf("%d is given twice", n)
		}
		given[n] = true
	}
	for n := range given {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", n))
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		return
	}
}
