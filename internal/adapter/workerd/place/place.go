// Package place gives a worker process its private folder, and short paths for its sockets.
package place

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
)

const (
	// maxSocketPath is the longest path of a unix socket that every system takes: macOS has 103 bytes, Linux 107.
	maxSocketPath = 103
	// shortParent and shortPrefix are where the second folders are.
	shortParent = "/tmp"
	shortPrefix = "runlot-worker-"
	// fresh is the age from which on a second folder that nobody holds is a leftover; its maker takes hold of it at once.
	fresh = time.Minute
)

// Place is a private folder for the files and sockets of one process.
type Place struct {
	// Dir is an absolute path.
	Dir string
	// short is a second folder, for sockets, when the path of Dir is too long for one; else "".
	short string
	// hold keeps short from being taken for a leftover. The kernel lets go of it when this process ends.
	hold *os.File
}

// sweepOnce removes the leftovers of earlier programs.
var sweepOnce = sync.OnceFunc(func() { sweep(shortParent, time.Now()) })

// New makes a folder for one process in parent; "" is the folder for temporary files. Socket is the longest name of a
// socket that the process will have.
func New(parent, socket string) (*Place, error) {
	sweepOnce()
	dir, err := os.MkdirTemp(parent, "worker-")
	if err != nil {
		return nil, noPlace(err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, noPlace(err)
	}
	p := &Place{Dir: dir}
	if len(p.Socket(socket)) > maxSocketPath {
		if err := p.shorten(); err != nil {
			p.Remove()
			return nil, noPlace(err)
		}
	}
	return p, nil
}

func noPlace(err error) error {
	return fault.New(fault.Environment, "worker_folder", "no folder can be made for the files of a worker process: %v", err).
		WithHint("set TMPDIR to a folder that you may write to, and see that its disk has room").WithCause(err)
}

// shorten makes the second folder.
func (p *Place) shorten() (err error) {
	if p.short, err = os.MkdirTemp(shortParent, shortPrefix); err != nil {
		return err
	}
	if p.hold, err = os.Open(p.short); err != nil {
		return err
	}
	return syscall.Flock(int(p.hold.Fd()), syscall.LOCK_SH)
}

// sweep removes the second folders in parent whose makers were killed. What cannot be looked at belongs to somebody else.
func sweep(parent string, now time.Time) {
	found, err := filepath.Glob(filepath.Join(parent, shortPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range found {
		sweepOne(dir, now)
	}
}

func sweepOne(dir string, now time.Time) {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || now.Sub(info.ModTime()) < fresh {
		return
	}
	hold, err := os.Open(dir)
	if err != nil {
		return
	}
	defer hold.Close()
	if syscall.Flock(int(hold.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		_ = os.RemoveAll(dir)
	}
}

// Socket returns the path of a socket.
func (p *Place) Socket(name string) string {
	if p.short != "" {
		return filepath.Join(p.short, name)
	}
	return filepath.Join(p.Dir, name)
}

// Listen makes a unix socket.
func (p *Place) Listen(name string) (*net.UnixListener, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: p.Socket(name), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("socket of a worker process: %w", err)
	}
	return l, nil
}

// Inherit makes a unix socket for a child: the listener is closed here, so that with the child the last holder is gone
// and connections are refused; its file stays.
func (p *Place) Inherit(name string) (*os.File, error) {
	l, err := p.Listen(name)
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	defer l.Close()
	f, err := l.File()
	if err != nil {
		return nil, fmt.Errorf("socket of a worker process: %w", err)
	}
	return f, nil
}

// Remove deletes the folders.
func (p *Place) Remove() {
	_ = os.RemoveAll(p.Dir)
	if p.short != "" {
		_ = os.RemoveAll(p.short)
	}
	if p.hold != nil {
		_ = p.hold.Close()
	}
}
