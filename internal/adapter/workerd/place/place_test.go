package place

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestALongPathHasItsSocketsElsewhere(t *testing.T) {
	parent := filepath.Join(t.TempDir(), strings.Repeat("x", maxSocketPath))
	if err := os.Mkdir(parent, 0o700); err != nil {
		t.Fatal(err)
	}
	p, err := New(parent, "router.sock")
	if err != nil {
		t.Fatal(err)
	}
	l, err := p.Listen("router.sock")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if len(p.Socket("router.sock")) > maxSocketPath || filepath.Dir(p.Socket("router.sock")) == p.Dir {
		t.Errorf("the socket is at %s", p.Socket("router.sock"))
	}
	p.Remove()
	if exists(p.Dir) || exists(p.short) {
		t.Error("a folder is left")
	}
}

func TestSweepTakesWhatNobodyHolds(t *testing.T) {
	parent := t.TempDir()
	later := time.Now().Add(2 * fresh)
	leftover, other := filepath.Join(parent, shortPrefix+"1"), filepath.Join(parent, "runlot-2")
	for _, dir := range []string{leftover, other} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "router.sock"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	held := &Place{}
	if err := held.shorten(); err != nil {
		t.Fatal(err)
	}
	defer held.Remove()
	sweep(parent, time.Now())
	if !exists(leftover) {
		t.Error("a folder that was just made is gone")
	}
	sweep(parent, later)
	sweepOne(held.short, later)
	if exists(leftover) || !exists(other) || !exists(held.short) {
		t.Errorf("leftover %t, another's %t, held %t", exists(leftover), exists(other), exists(held.short))
	}
	if err := held.hold.Close(); err != nil { // as the end of its process does
		t.Fatal(err)
	}
	sweepOne(held.short, later)
	if exists(held.short) {
		t.Error("the folder of a process that is gone is left")
	}
}
