package resident_test

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/adapter/workerd/resident"
)

func TestBytes(t *testing.T) {
	before, err := resident.Bytes(t.Context(), os.Getpid())
	if err != nil || before < 1<<20 {
		t.Fatal(before, err)
	}
	const size = 64 << 20
	ballast := make([]byte, size)
	for i := 0; i < size; i += 4096 {
		ballast[i] = 1
	}
	after, err := resident.Bytes(t.Context(), os.Getpid())
	if err != nil || after < size {
		t.Errorf("%d bytes, after %d more %d bytes, %v", before, len(ballast), after, err)
	}
}

func TestWatch(t *testing.T) {
	if size := resident.Watch(t.Context(), os.Getpid(), 1, time.Millisecond); size < 2 {
		t.Errorf("a process over its bound has %d bytes", size)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if size := resident.Watch(ctx, os.Getpid(), 1<<50, time.Millisecond); size != 0 {
		t.Errorf("a process within its bound has %d bytes too many", size)
	}
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	if size := resident.Watch(t.Context(), gone.Process.Pid, 1<<50, time.Millisecond); size != 0 {
		t.Errorf("a process that is gone has %d bytes", size)
	}
}
