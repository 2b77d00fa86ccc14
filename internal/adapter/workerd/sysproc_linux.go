package workerd

import "syscall"

// sysProcAttr puts a child into its own process group, so that an interrupt from the terminal reaches it only through us,
// and lets the kernel kill it when the thread that started it ends.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
