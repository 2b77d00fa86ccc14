//go:build !linux

package install

import "syscall"

// endWithParent does nothing: there is no such signal here. What a process leaves behind is ended by the next start.
func endWithParent(*syscall.SysProcAttr) {}
