package pool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/core/queue"
)

// writerDir is the variable that makes this program write to a file in a folder until it is killed.
const writerDir = "POOL_TEST_WRITER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerDir); dir != "" {
		writeFor(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

var layout = []string{"CREATE TABLE n (n INTEGER UNIQUE)"}

func open(t *testing.T, dir string, layout ...string) *Pool {
	t.Helper()
	p := New(Options{Dir: dir, What: "test", Layout: layout, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(p.Close)
	return p
}

func insert(n int64) func(*Conn) error {
	return func(c *Conn) error { return c.Query("INSERT INTO n (n) VALUES (?)", []any{n}, nil) }
}

func count(t *testing.T, p *Pool, identity string) (n, largest int64) {
	t.Helper()
	err := p.Read(t.Context(), identity, func(c *Conn) error {
		return c.Query("SELECT count(*), coalesce(max(n), 0) FROM n", nil, func(s *sqlite3.Stmt) error {
			n, largest = s.ColumnInt64(0), s.ColumnInt64(1)
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return n, largest
}

// writeFor writes two numbers at a time, by calls that may share a commit, and says the larger one when both have returned.
func writeFor(dir string) {
	p := New(Options{Dir: dir, What: "test", Layout: layout, Log: slog.New(slog.DiscardHandler)})
	for n := int64(2); ; n += 2 {
		var both sync.WaitGroup
		for _, one := range []int64{n - 1, n} {
			both.Go(func() {
				if err := p.Write(context.Background(), "x", insert(one)); err != nil {
					fmt.Println("failed:", err)
				}
			})
		}
		both.Wait()
		fmt.Println(n)
	}
}

// TestKilledWriter: a process that is killed loses nothing of what it was told is written.
func TestKilledWriter(t *testing.T) {
	for round := range 3 {
		dir := t.TempDir()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		command := exec.CommandContext(ctx, os.Args[0])
		command.Env = append(os.Environ(), writerDir+"="+dir)
		out, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		said := 0
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if said, err = strconv.Atoi(lines.Text()); err != nil {
				t.Fatal(lines.Text())
			}
			if said == 20+14*round {
				_ = command.Process.Kill()
			}
		}
		_ = command.Wait()
		cancel()
		if n, largest := count(t, open(t, dir, layout...), "x"); said < 20 || n < int64(said) || largest > n+1 {
			t.Errorf("%d were written; there are %d up to %d", said, n, largest)
		}
	}
}

// TestAWriteThatFailsLeavesNothing: of the writes that share a commit, one that fails takes back itself and no other.
func TestAWriteThatFailsLeavesNothing(t *testing.T) {
	p := open(t, t.TempDir(), layout...)
	var all sync.WaitGroup
	for n := range int64(64) {
		all.Go(func() {
			err := p.Write(t.Context(), "x", func(c *Conn) error {
				if err := insert(n)(c); err != nil {
					return err
				}
				if n%2 == 0 {
					return insert(n)(c) // is there already
				}
				return nil
			})
			if failed := errors.Is(err, sqlite3.CONSTRAINT); failed != (n%2 == 0) {
				t.Errorf("%d: %v", n, err)
			}
		})
	}
	all.Wait()
	if n, _ := count(t, p, "x"); n != 32 {
		t.Errorf("%d rows", n)
	}
}

// TestLayouts: a file gets the tables that a newer release adds, and an older release refuses it.
func TestLayouts(t *testing.T) {
	dir := t.TempDir()
	newer := []string{layout[0], "ALTER TABLE n ADD COLUMN more; UPDATE n SET more = 1"}
	for i, versions := range [][]string{layout, newer, newer} {
		p := open(t, dir, versions...)
		if err := p.Write(t.Context(), "x", insert(int64(i))); err != nil {
			t.Fatal(err)
		}
		p.Close()
	}
	if err := open(t, dir, layout...).Write(t.Context(), "x", insert(9)); !errors.Is(err, errNewer) {
		t.Error(err)
	}
	if n, _ := count(t, open(t, dir, newer...), "x"); n != 3 {
		t.Errorf("%d rows", n)
	}
}

// TestManyFiles: only so many stay open, and a closed one is opened again.
func TestManyFiles(t *testing.T) {
	p := open(t, t.TempDir(), layout...)
	for range 2 {
		for i := range queue.StoreOpen + 3 {
			if err := p.Write(t.Context(), fmt.Sprint(i), func(c *Conn) error { return c.Query("INSERT INTO n VALUES (NULL)", nil, nil) }); err != nil {
				t.Fatal(err)
			}
		}
		p.mu.Lock()
		if len(p.all) > queue.StoreOpen {
			t.Errorf("%d files are open", len(p.all))
		}
		p.mu.Unlock()
	}
	if n, _ := count(t, p, "0"); n != 2 {
		t.Errorf("%d rows", n)
	}
}

// TestTurns: a call waits for the one before it as long as its caller does, and what waits at the close is refused or done.
func TestTurns(t *testing.T) {
	p := open(t, t.TempDir(), layout...)
	begun, end := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		err := p.Write(t.Context(), "x", func(c *Conn) error {
			close(begun)
			<-end
			return insert(1)(c)
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	var off sync.WaitGroup
	for _, call := range []func(context.Context, string, func(*Conn) error) error{p.Read, p.Write} {
		off.Go(func() {
			if err := call(ctx, "x", insert(2)); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	cancel()
	off.Wait()
	close(end)
	all.Wait()
	if n, _ := count(t, p, "x"); n != 1 {
		t.Errorf("%d rows", n)
	}
	p.Close()
	if err := p.Write(t.Context(), "x", insert(3)); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// TestUnusable: what is no database is named, and stays as it is.
func TestUnusable(t *testing.T) {
	dir := t.TempDir()
	p := open(t, dir, layout...)
	file := filepath.Join(dir, "x.sqlite")
	if err := os.WriteFile(file, []byte("this is no database, whatever its name says"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.Write(t.Context(), "x", insert(1)); err == nil {
		t.Error("it is written to")
	}
	if text, err := os.ReadFile(file); err != nil || string(text[:4]) != "this" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestRemove: nothing of a removed file is left, whoever reads and writes it meanwhile, and what comes later begins anew.
func TestRemove(t *testing.T) {
	p := open(t, t.TempDir(), layout...)
	ctx := t.Context()
	no := errors.New("not empty")
	if err := p.Remove(ctx, "none", func(*Conn) error { return no }); err != nil {
		t.Errorf("what does not exist: %v", err)
	}
	if err := p.Write(ctx, "one", insert(1)); err != nil {
		t.Fatal(err)
	}
	if err := p.Remove(ctx, "one", func(*Conn) error { return no }); !errors.Is(err, no) {
		t.Errorf("%v", err)
	}
	if n, _ := count(t, p, "one"); n != 1 {
		t.Errorf("%d rows behind a removal that was refused", n)
	}
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			for n := range 50 {
				if err := p.Write(ctx, "one", insert(int64(100+i*50+n))); err != nil {
					t.Errorf("%v", err)
				}
			}
		})
	}
	for range 5 {
		if err := p.Remove(ctx, "one", func(*Conn) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	writers.Wait()
	if err := p.Remove(ctx, "one", func(*Conn) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(p.o.Dir, "*")); len(left) != 0 || err != nil {
		t.Errorf("left: %v %v", left, err)
	}
	if n, _ := count(t, p, "one"); n != 0 {
		t.Errorf("%d rows in a new file", n)
	}
}
