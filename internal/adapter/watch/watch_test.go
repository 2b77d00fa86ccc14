package watch

import (
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scene is a folder with a watcher.
type scene struct {
	*testing.T
	dir string
	w   *Watcher
}

func newScene(t *testing.T) *scene {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return &scene{t, dir, w}
}

func (s *scene) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

func (s *scene) write(name, content string) {
	s.Helper()
	if err := os.MkdirAll(filepath.Dir(s.path(name)), 0o755); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(s.path(name), []byte(content), 0o600); err != nil {
		s.Fatal(err)
	}
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *scene) set(names ...string) {
	s.Helper()
	paths := make([]string, 0, len(names))
	for _, name := range names {
		paths = append(paths, s.path(name))
	}
	s.must(s.w.Set(paths, time.Time{}))
}

// want receives changes until each of the names has come, and fails on any other.
func (s *scene) want(names ...string) {
	s.Helper()
	missing := map[string]bool{}
	for _, name := range names {
		missing[s.path(name)] = true
	}
	wanted := len(missing)
	for len(missing) > 0 {
		select {
		case paths := <-s.w.Changes():
			for _, path := range paths {
				if !missing[path] && wanted > 0 {
					s.Logf("also: %s", path)
				}
				delete(missing, path)
			}
		case <-time.After(10 * time.Second):
			s.Fatalf("no change of %v", missing)
		}
	}
}

func TestWriteAndCreateAndRemove(t *testing.T) {
	s := newScene(t)
	s.write("src/a.ts", "1")
	s.write("src/other.ts", "1")
	s.set("src/a.ts", ".dev.vars")
	s.write("src/other.ts", "2") // not in the set
	s.write("src/a.ts", "2")
	select {
	case paths := <-s.w.Changes():
		if diff := cmp.Diff([]string{s.path("src/a.ts")}, paths); diff != "" {
			t.Error(diff)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("no change")
	}
	s.write(".dev.vars", "A=1")
	s.want(".dev.vars")
	s.must(os.Remove(s.path(".dev.vars")))
	s.want(".dev.vars")
	s.must(os.Chmod(s.path("src/a.ts"), 0o644)) // no change of content: not reported
	s.write(".dev.vars", "A=2")
	select {
	case paths := <-s.w.Changes():
		if diff := cmp.Diff([]string{s.path(".dev.vars")}, paths); diff != "" {
			t.Error(diff)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("no change")
	}
}

func TestEditorsThatSaveByRenaming(t *testing.T) {
	s := newScene(t)
	s.write("a.ts", "1")
	s.set("a.ts")
	for i := range 3 {
		s.write("a.ts.tmp", strconv.Itoa(i))
		s.must(os.Rename(s.path("a.ts.tmp"), s.path("a.ts")))
		s.want("a.ts")
		s.must(os.Rename(s.path("a.ts"), s.path("a.ts~")))
		s.write("a.ts", strconv.Itoa(i))
		s.want("a.ts")
	}
}

func TestFoldersComeAndGo(t *testing.T) {
	s := newScene(t)
	s.set("deep/er/a.ts", "b.ts") // the folders do not exist yet
	s.write("deep/er/a.ts", "1")
	s.want("deep/er/a.ts")
	s.write("deep/er/a.ts", "2")
	s.want("deep/er/a.ts")
	s.must(os.Rename(s.path("deep"), s.path("away")))
	s.want("deep/er/a.ts")
	s.write("away/er/a.ts", "3") // not in the set
	s.write("b.ts", "1")
	s.want("b.ts")
	s.must(os.Rename(s.path("away"), s.path("deep")))
	s.want("deep/er/a.ts")
	s.must(os.RemoveAll(s.path("deep")))
	s.want("deep/er/a.ts")
	s.write("deep/er/a.ts", "4")
	s.want("deep/er/a.ts")
	s.write("deep/er/a.ts", "5")
	s.want("deep/er/a.ts")
}

func TestFolderStandsForItsFiles(t *testing.T) {
	s := newScene(t)
	s.write("src/a.ts", "1")
	s.set("src")
	s.write("src/new.ts", "1")
	s.want("src")
	s.must(os.Remove(s.path("src/a.ts")))
	s.want("src")
}

func TestSymbolicLink(t *testing.T) {
	s := newScene(t)
	s.write("real/a.ts", "1")
	s.must(os.MkdirAll(s.path("src"), 0o755))
	s.must(os.Symlink("../real/a.ts", s.path("src/a.ts")))
	s.set("src/a.ts")
	s.write("real/a.ts", "2")
	s.want("src/a.ts")
}

func TestSetReplaces(t *testing.T) {
	s := newScene(t)
	s.write("one/a.ts", "1")
	s.write("two/b.ts", "1")
	s.set("one/a.ts")
	s.set("two/b.ts")
	s.write("one/a.ts", "2")
	s.write("two/b.ts", "2")
	select {
	case paths := <-s.w.Changes():
		if diff := cmp.Diff([]string{s.path("two/b.ts")}, paths); diff != "" {
			t.Error(diff)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("no change")
	}
	if list := s.w.source.WatchList(); len(list) != 1 {
		t.Errorf("watched: %q", list)
	}
}

func TestSetSince(t *testing.T) {
	s := newScene(t)
	s.write("old.ts", "1")
	s.write("new.ts", "1")
	start := time.Now()
	s.must(os.Chtimes(s.path("old.ts"), start, start.Add(-time.Hour)))
	s.must(os.Chtimes(s.path("new.ts"), start, start))
	s.must(s.w.Set([]string{s.path("old.ts"), s.path("new.ts"), s.path("none.ts")}, start))
	select {
	case paths := <-s.w.Changes():
		if diff := cmp.Diff([]string{s.path("new.ts")}, paths); diff != "" {
			t.Error(diff)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("no change")
	}
}

func TestLostEventsChangeEverything(t *testing.T) {
	s := newScene(t)
	s.set("a.ts", "b/c.ts")
	s.w.source.Errors <- fsnotify.ErrEventOverflow
	s.want("a.ts", "b/c.ts")
}

func TestBounds(t *testing.T) {
	s := newScene(t)
	if err := s.w.Set(make([]string, queue.WatchFiles+1), time.Time{}); fault.KindOf(err) != fault.Limit {
		t.Errorf("%v", err)
	}
	paths := make([]string, queue.WatchFolders+1)
	for i := range paths {
		folder := s.path(strconv.Itoa(i))
		s.must(os.Mkdir(folder, 0o755))
		paths[i] = filepath.Join(folder, "a.ts")
	}
	s.must(s.w.Set(paths[1:], time.Time{}))
	if err := s.w.Set(paths, time.Time{}); fault.From(err) == nil || fault.From(err).Code != CodeWatch {
		t.Errorf("%v", err)
	}
}

func TestStopTwice(t *testing.T) {
	s := newScene(t)
	s.set("a.ts")
	s.w.Stop()
	s.w.Stop()
}
