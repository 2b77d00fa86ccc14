package state

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
)

// A second process on a state folder leaves alone what the first has there, also when it is to begin anew.
func TestStateHasOneUser(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	first, err := Open(state, false)
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(RunDir(state), "worker-1")
	if err := os.WriteFile(socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, clean := range []bool{false, true} {
		_, err := Open(state, clean)
		if f, ok := errors.AsType[*fault.Error](err); !ok || f.Code != "state_in_use" {
			t.Errorf("clean %t: got %v, want state_in_use", clean, err)
		}
		if _, err := os.Stat(socket); err != nil {
			t.Errorf("clean %t: the second took something from the first: %v", clean, err)
		}
	}
	first.Close()
	next, err := Open(state, true)
	if err != nil {
		t.Fatalf("after the end of the first: %v", err)
	}
	defer next.Close()
	if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what the first left is still there: %v", err)
	}
	if _, err := Open(state, false); err == nil {
		t.Error("a folder that was emptied is not locked any more")
	}
}

func TestCleanKeepsWhatIsNotState(t *testing.T) {
	state := t.TempDir()
	photo := filepath.Join(state, "photo.jpg")
	if err := os.WriteFile(photo, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(state, true)
	if err == nil || !strings.Contains(err.Error(), "photo.jpg") {
		t.Errorf("got %v, want a fault that names the file", err)
	}
	if entries, err := os.ReadDir(state); err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v (%v), want the photo alone", entries, err)
	}
}

// The port of a process that was killed is free a moment later. Anybody else's is refused at once.
func TestListenWaitsForTheLeftover(t *testing.T) {
	held, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	address := held.Addr().String()
	dir := filepath.Join(t.TempDir(), "state")
	prepare := func(left bool) *Folder {
		t.Helper()
		if left {
			if err := os.WriteFile(filepath.Join(RunDir(dir), "worker-1"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		f, err := Open(dir, false)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		return f
	}
	f := prepare(false)
	began := time.Now()
	if _, err := f.Listen(context.Background(), address); !errors.Is(err, syscall.EADDRINUSE) || time.Since(began) > leftoverTime/2 {
		t.Errorf("without a leftover: got %v after %s, want EADDRINUSE at once", err, time.Since(began))
	}
	f = prepare(true)
	defer time.AfterFunc(5*leftoverEvery, func() { _ = held.Close() }).Stop()
	listener, err := f.Listen(context.Background(), address)
	if err != nil {
		t.Fatalf("with a leftover that ends: %v", err)
	}
	_ = listener.Close()
}
