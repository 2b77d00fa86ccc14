package workerd

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// sysProcAttr puts a child into its own process group, so that an interrupt from the terminal reaches it only through us,
// and lets the kernel kill it when the thread that started it ends.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// limitMemory bounds the private memory of a process: an allocation beyond it fails, which JavaScript sees as a RangeError.
// The address space is no measure, since V8 reserves far more than it uses. A process that has ended needs no bound.
func limitMemory(pid, mib int) {
	most := uint64(mib) << 20
	_ = unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most}, nil)
}
