package resident

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Bytes is the memory that a process has resident.
func Bytes(_ context.Context, pid int) (int64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("memory of process %d: %q", pid, text)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	return pages * int64(os.Getpagesize()), nil
}

// Wall makes allocations of a process fail that would take its private writable memory over limit, in bytes. Memory that is
// set aside counts before it is used.
func Wall(pid int, limit int64) error {
	bound := unix.Rlimit{Cur: uint64(limit), Max: uint64(limit)}
	if err := unix.Prlimit(pid, unix.RLIMIT_DATA, &bound, nil); err != nil {
		return fmt.Errorf("limit the memory of process %d: %w", pid, err)
	}
	return nil
}
