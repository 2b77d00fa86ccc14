package daemon

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
	"github.com/runlot/runlot/internal/daemon/node"
)

// A second process on a state folder leaves alone what the first has there, also when it is to begin anew.
func TestStateHasOneUser(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	first := &Daemon{o: Options{State: state}}
	if err := first.prepareState(); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(node.RunDir(first.o.State), "worker-1")
	if err := os.WriteFile(socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, clean := range []bool{false, true} {
		err := (&Daemon{o: Options{State: state, Clean: clean}}).prepareState()
		if f, ok := errors.AsType[*fault.Error](err); !ok || f.Code != "state_in_use" {
			t.Errorf("clean %t: got %v, want state_in_use", clean, err)
		}
		if _, err := os.Stat(socket); err != nil {
			t.Errorf("clean %t: the second took something from the first: %v", clean, err)
		}
	}
	if err := first.lock.Close(); err != nil {
		t.Fatal(err)
	}
	next := &Daemon{o: Options{State: state, Clean: true}}
	if err := next.prepareState(); err != nil {
		t.Fatalf("after the end of the first: %v", err)
	}
	defer next.lock.Close()
	if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what the first left is still there: %v", err)
	}
	if err := (&Daemon{o: Options{State: state}}).prepareState(); err == nil {
		t.Error("a folder that was emptied is not locked any more")
	}
}

func TestCleanKeepsWhatIsNotState(t *testing.T) {
	state := t.TempDir()
	photo := filepath.Join(state, "photo.jpg")
	if err := os.WriteFile(photo, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := (&Daemon{o: Options{State: state, Clean: true}}).prepareState()
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
	d := &Daemon{o: Options{State: filepath.Join(t.TempDir(), "state")}}
	prepare := func(left bool) {
		t.Helper()
		if left {
			if err := os.WriteFile(filepath.Join(node.RunDir(d.o.State), "worker-1"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.prepareState(); err != nil {
			t.Fatal(err)
		}
		if err := d.lock.Close(); err != nil {
			t.Fatal(err)
		}
	}
	prepare(false)
	began := time.Now()
	if _, err := d.listen(context.Background(), address); !errors.Is(err, syscall.EADDRINUSE) || time.Since(began) > leftoverTime/2 {
		t.Errorf("without a leftover: got %v after %s, want EADDRINUSE at once", err, time.Since(began))
	}
	prepare(true)
	defer time.AfterFunc(5*leftoverEvery, func() { _ = held.Close() }).Stop()
	listener, err := d.listen(context.Background(), address)
	if err != nil {
		t.Fatalf("with a leftover that ends: %v", err)
	}
	_ = listener.Close()
}
