package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/runlot/runlot/internal/core/d1"
	"github.com/runlot/runlot/internal/core/fault"
)

// writerDir is the variable that makes this program write to the databases in a folder until it is killed.
const writerDir = "SQLITE_TEST_WRITER"

// write commits batches of two inserts and says each number when it is committed.
func write(dir string) {
	d := New(Options{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	for n := 1; ; n++ {
		_, err := d.Run(context.Background(), "x", []d1.Query{
			query("INSERT INTO a (n, body) VALUES (?, zeroblob(5000))", float64(n)), query("INSERT INTO b (n) VALUES (?)", float64(n)),
		})
		if err != nil {
			fmt.Println("failed:", err)
			return
		}
		fmt.Println(n)
	}
}

// TestKill: a process that is killed in the middle of batches loses none that it was told is committed, and leaves none by
// half, while another process writes to the same file.
func TestKill(t *testing.T) {
	d := databases(t, Options{})
	run(t, d, query("CREATE TABLE a (n INTEGER, body)"), query("CREATE TABLE b (n INTEGER)"), query("CREATE TABLE mine (n INTEGER)"))
	mine := int64(0)
	for round := range 5 {
		run(t, d, query("DELETE FROM a"), query("DELETE FROM b"))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		command := exec.CommandContext(ctx, os.Args[0])
		command.Env = append(os.Environ(), writerDir+"="+d.o.Dir)
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
			if said%7 == 0 {
				run(t, d, query("INSERT INTO mine VALUES (?)", float64(said)))
				mine++
			}
			if said == 10+7*round {
				_ = command.Process.Kill()
			}
		}
		_ = command.Wait()
		cancel()
		if said < 10 {
			t.Fatalf("the writer ended after %d batches", said)
		}
		counts := run(t, d, query("SELECT count(*), max(n), (SELECT count(*) FROM b), (SELECT max(n) FROM b) FROM a"))[0].Rows[0]
		if counts[0] != counts[1] || counts[0] != counts[2] || counts[0] != counts[3] || counts[0].(int64) < int64(said) {
			t.Fatalf("%d were committed; there are %v", said, counts)
		}
	}
	if got := value(t, d, "SELECT count(*) FROM mine"); got != mine {
		t.Errorf("%v of %d rows of the other process are there", got, mine)
	}
	if got := value(t, d, "PRAGMA quick_check"); got != "ok" {
		t.Error(got)
	}
}

// TestRoundTrip: what is bound comes back as it was, in a column without a type and through every change of its row.
func TestRoundTrip(t *testing.T) {
	d := databases(t, Options{})
	run(t, d, query("CREATE TABLE t (v)"))
	draw := rapid.OneOf(
		rapid.Just(d1.Value(nil)),
		rapid.Map(rapid.Float64(), func(f float64) d1.Value { return f }),
		rapid.Map(rapid.StringN(0, 50, 200), func(s string) d1.Value { return strings.ToValidUTF8(s, "?") }),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 200), func(b []byte) d1.Value { return append([]byte{}, b...) }),
	)
	kinds := map[string]string{"<nil>": "null", "float64": "real", "string": "text", "[]uint8": "blob"}
	rapid.Check(t, func(rt *rapid.T) {
		v := draw.Draw(rt, "value")
		if f, ok := v.(float64); ok && math.IsNaN(f) {
			return // JSON has none
		}
		results, err := d.Run(t.Context(), "x", []d1.Query{
			query("DELETE FROM t"), query("INSERT INTO t VALUES (?)", v), query("UPDATE t SET v = v"), query("SELECT v, typeof(v) FROM t"),
		})
		if err != nil {
			rt.Fatal(err)
		}
		want := []d1.Value{v, kinds[fmt.Sprintf("%T", v)]}
		if got := results[3].Rows[0]; !cmp.Equal(got, want) {
			rt.Fatalf("got %#v, want %#v", got, want)
		}
	})
	// The numbers of JavaScript, where a column has a type.
	run(t, d, query("CREATE TABLE typed (i INTEGER, r REAL, s TEXT, n NUMERIC)"), query("INSERT INTO typed VALUES (?1, ?1, ?1, ?1)", float64(1<<53)))
	want := []d1.Value{int64(1 << 53), float64(1 << 53), "9007199254740992.0", int64(1 << 53)}
	if got := run(t, d, query("SELECT i, r, s, n FROM typed"))[0].Rows[0]; !cmp.Equal(got, want) {
		t.Errorf("got %#v, want %#v", got, want)
	}
}

// TestConcurrentCalls: whatever comes at once, each call is whole and none is lost.
func TestConcurrentCalls(t *testing.T) {
	d := databases(t, Options{})
	run(t, d, query("CREATE TABLE t (n INTEGER)"), query("INSERT INTO t VALUES (0)"))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 10 {
				results, err := d.Run(t.Context(), "x", []d1.Query{query("UPDATE t SET n = n + 1"), query("SELECT n FROM t"), query("UPDATE t SET n = n + 1"), query("SELECT n FROM t")})
				if err != nil {
					t.Error(err)
				} else if first, second := results[1].Rows[0][0].(int64), results[3].Rows[0][0].(int64); first%2 != 1 || second != first+1 {
					t.Errorf("a call saw %d and %d", first, second)
				}
			}
		})
	}
	wg.Wait()
	if n := value(t, d, "SELECT n FROM t"); n != int64(400) {
		t.Errorf("%v increments are left", n)
	}
}

// TestTooManyWait: who finds the line full is sent away at once.
func TestTooManyWait(t *testing.T) {
	d := databases(t, Options{})
	run(t, d, query("SELECT 1"))
	d.all["x"].callers = 1001
	if e := refused(t, d, query("SELECT 1")); e.Text != d1.QueuedMany {
		t.Error(e)
	}
	d.all["x"].callers = 0
	run(t, d, query("SELECT 1"))
}

func TestBackup(t *testing.T) {
	d := databases(t, Options{})
	target := filepath.Join(t.TempDir(), "copy.sqlite")
	if err := d.Backup(t.Context(), "x", target); fault.KindOf(err) != fault.NotFound {
		t.Errorf("of nothing: %v", err)
	}
	run(t, d, query("CREATE TABLE t (n INTEGER, body)"), query("CREATE VIRTUAL TABLE f USING fts5(body)"))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // pairs of rows are written all the time
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
				run(t, d, query("INSERT INTO t VALUES (?, zeroblob(20000))", float64(n)), query("INSERT INTO t VALUES (?, zeroblob(20000))", float64(n)))
			}
		}
	})
	for value(t, d, "SELECT count(*) FROM t").(int64) < 20 {
		<-time.After(time.Millisecond)
	}
	err := d.Backup(t.Context(), "x", target)
	close(stop)
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Backup(t.Context(), "x", target); fault.KindOf(err) != fault.Conflict {
		t.Errorf("onto a file: %v", err)
	}
	// The copy is a database by itself, at one moment.
	restored := databases(t, Options{Dir: filepath.Dir(target)})
	results, err := restored.Run(t.Context(), "copy", []d1.Query{query("SELECT count(*), count(DISTINCT n) FROM t"), query("PRAGMA quick_check"), query("SELECT count(*) FROM f")})
	if err != nil {
		t.Fatal(err)
	}
	if row := results[0].Rows[0]; row[0].(int64) < 20 || row[0].(int64) != 2*row[1].(int64) {
		t.Errorf("the copy has %v", row)
	}
	if results[1].Rows[0][0] != "ok" {
		t.Error(results[1].Rows)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	other := target + "2"
	if err := os.WriteFile(other+".part", nil, 0o600); err != nil { // what a killed backup left
		t.Fatal(err)
	}
	if err := d.Backup(ctx, "x", other); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if left, err := filepath.Glob(other + "*"); err != nil || len(left) > 0 {
		t.Errorf("a cancelled backup leaves %v", left)
	}
}
