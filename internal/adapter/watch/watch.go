// Package watch tells when files change. It watches folders, not files, so that it sees editors that save by renaming,
// files that do not exist yet, and folders that are deleted and come back.
package watch

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// CodeWatch is the code of the faults of this package: more is to be watched than we or the machine allow.
const CodeWatch = "watch_limit"

// Watcher watches a set of files. Its methods may be called from several goroutines.
type Watcher struct {
	log     *slog.Logger
	source  *fsnotify.Watcher
	pending *gatherer
	changes chan []string
	stop    context.CancelFunc
	running sync.WaitGroup

	mu sync.Mutex
	// wanted are the paths of the set; a path that is a symbolic link stands there a second time as what it leads to.
	// The value is the path as it was given.
	wanted map[string]string
	// above are the folders above the wanted paths, up to the root.
	above map[string]bool
	// folders are what the kernel watches for us.
	folders map[string]bool
}

// New starts a watcher of nothing. It fails with a fault of kind Environment when the machine allows no more watchers.
func New(log *slog.Logger) (*Watcher, error) {
	source, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, refused(err, "fs.inotify.max_user_instances")
	}
	ctx, stop := context.WithCancel(context.Background())
	w := &Watcher{log: log, source: source, pending: newGatherer(), changes: make(chan []string), stop: stop, folders: map[string]bool{}}
	w.running.Go(func() { w.listen(ctx) })
	w.running.Go(func() { w.pending.run(ctx, w.changes) })
	return w, nil
}

// refused explains why the kernel does not watch.
func refused(err error, setting string) error {
	f := fault.New(fault.Environment, CodeWatch, "files cannot be watched for changes").WithCause(err)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EMFILE) {
		return f.WithHint("the system's limit is reached: raise it with sysctl %s", setting)
	}
	return f.WithHint("%s", err)
}

// Stop ends the watcher and waits until it has. Calling it twice is fine.
func (w *Watcher) Stop() {
	w.stop()
	w.running.Wait()
}

// Changes gives the paths that changed, sorted, each once, as they were given to Set: queue.WatchQuiet after the last
// change, at the latest queue.WatchWait after the first. What changes while nobody receives is kept and comes with the
// next. The channel is never closed.
func (w *Watcher) Changes() <-chan []string { return w.changes }

// Set replaces the watched set. Paths are absolute; one need not exist. A path that is a folder stands for every file
// directly in it. A file that was modified at since or later counts as changed: pass the time at which reading the files
// began, and no change falls between reading and watching; the zero time turns this off. The set is at most
// queue.WatchFiles paths in queue.WatchFolders folders. When Set fails, what could be watched is watched.
func (w *Watcher) Set(files []string, since time.Time) error {
	if len(files) > queue.WatchFiles {
		return fault.New(fault.Limit, CodeWatch, "%d files are to be watched; the limit is %d", len(files), queue.WatchFiles)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted = make(map[string]string, len(files))
	w.above = map[string]bool{}
	for _, given := range files {
		path := filepath.Clean(given)
		w.want(path, given)
		if target, err := filepath.EvalSymlinks(path); err == nil && target != path {
			w.want(target, given)
		}
	}
	err := w.watchFolders()
	if !since.IsZero() {
		for path, given := range w.wanted {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && !info.ModTime().Before(since) {
				w.pending.add(given)
			}
		}
	}
	return err
}

func (w *Watcher) want(path, given string) {
	w.wanted[path] = given
	for folder := filepath.Dir(path); !w.above[folder]; folder = filepath.Dir(folder) {
		w.above[folder] = true
	}
}

// watchFolders makes the kernel watch the folder of each wanted path, or the nearest one above that exists, and no
// other.
func (w *Watcher) watchFolders() (err error) {
	needed := map[string]bool{}
	tried := map[string]bool{}
	for path := range w.wanted {
		folders := []string{filepath.Dir(path)}
		if info, statErr := os.Stat(path); statErr == nil && info.IsDir() {
			folders = append(folders, path)
		}
		for _, folder := range folders {
			if tried[folder] {
				continue
			}
			tried[folder] = true
			found, addErr := w.watchNearest(folder)
			switch {
			case addErr != nil:
				err = addErr
			case !needed[found] && len(needed) >= queue.WatchFolders:
				err = fault.New(fault.Limit, CodeWatch, "the watched files are in more than %d folders", queue.WatchFolders)
			default:
				needed[found] = true
			}
		}
	}
	for folder := range w.folders {
		if !needed[folder] {
			delete(w.folders, folder)
			// It fails only for a folder that is gone and so no longer watched.
			_ = w.source.Remove(folder)
		}
	}
	return err
}

// watchNearest watches the folder or the nearest one above it that exists.
func (w *Watcher) watchNearest(folder string) (string, error) {
	for at := folder; ; at = filepath.Dir(at) {
		if w.folders[at] {
			return at, nil
		}
		err := w.source.Add(at)
		switch {
		case err == nil:
			w.folders[at] = true
			if at == folder || !isDir(below(at, folder)) {
				return at, nil
			}
			// The folder below appeared just before this one was watched: start again there.
			at = filepath.Join(folder, "x")
		case !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) || at == filepath.Dir(at):
			return "", refused(err, "fs.inotify.max_user_watches")
		}
	}
}

// below is the folder directly under at on the way to folder.
func below(at, folder string) string {
	for filepath.Dir(folder) != at {
		folder = filepath.Dir(folder)
	}
	return folder
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// listen takes what the kernel reports until ctx ends.
func (w *Watcher) listen(ctx context.Context) {
	defer w.source.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-w.source.Events:
			w.handle(event)
		case err := <-w.source.Errors:
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				w.rescan(string(filepath.Separator), false)
				continue
			}
			w.log.Warn("watching files", "error", err)
		}
	}
}

// handle notes the change of a wanted path, and follows the folders on the way to one as they come and go.
func (w *Watcher) handle(event fsnotify.Event) {
	if event.Op == fsnotify.Chmod {
		return
	}
	path := filepath.Clean(event.Name)
	w.mu.Lock()
	given, wanted := w.wanted[path]
	folder, inWanted := w.wanted[filepath.Dir(path)]
	structure := w.above[path] || w.folders[path]
	if structure && event.Op&(fsnotify.Remove|fsnotify.Rename) != 0 {
		w.forget(path)
	}
	w.mu.Unlock()
	switch {
	case wanted:
		w.pending.add(given)
	case inWanted:
		w.pending.add(folder)
	}
	if structure && event.Op != fsnotify.Write {
		w.rescan(path, event.Has(fsnotify.Create))
	}
}

// forget drops the watches of a folder that went away, and of those in it.
func (w *Watcher) forget(path string) {
	for folder := range w.folders {
		if within(folder, path) {
			delete(w.folders, folder)
			// It fails for a folder that the kernel has forgotten by itself.
			_ = w.source.Remove(folder)
		}
	}
}

// rescan watches the folders anew after one of them changed, and takes every wanted path under it for changed: what
// happened in it before it was watched is not known. Of a new folder, only what exists in it has changed.
func (w *Watcher) rescan(under string, isNew bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.watchFolders(); err != nil {
		w.log.Warn("watching files", "error", fault.Detail(err))
	}
	for path, given := range w.wanted {
		if !within(path, under) {
			continue
		}
		if _, err := os.Stat(path); err == nil || !isNew {
			w.pending.add(given)
		}
	}
}

// within reports whether path is the folder or in it.
func within(path, folder string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(folder, string(filepath.Separator)))
	return ok && (rest == "" || rest[0] == filepath.Separator)
}
