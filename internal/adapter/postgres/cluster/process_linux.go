package cluster

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// seesProcesses says that processesIn finds every process.
const seesProcesses = true

// processAttributes start a program in a session of its own, so that a Ctrl-C at the terminal is this process's to
// handle, and have the kernel end it when this process dies in whatever way. The signal asks for a fast shutdown: open
// transactions are rolled back and a checkpoint is written, so that the next start has nothing to recover.
func processAttributes(a account) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGINT}
	if a.other {
		attributes.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return attributes
}

// processesIn returns the PostgreSQL processes whose working folder is the data folder, as every server process's is.
func processesIn(data string) []int {
	folder, err := os.Stat(data)
	if err != nil {
		return nil
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		name, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "comm"))
		if err != nil || strings.TrimSpace(string(name)) != serverProgram {
			continue
		}
		if at, err := os.Stat(filepath.Join("/proc", entry.Name(), "cwd")); err == nil && os.SameFile(at, folder) {
			pids = append(pids, pid)
		}
	}
	return pids
}
