//go:build linux

package durability_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// process is one process of the system, told apart from a later one with the same id by when it began.
type process struct {
	pid, parent int
	began       string
	state       string
	name        string
}

// processes lists all that run now; those that are dead and only wait to be reaped are left out.
func processes() []process {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	list := make([]process, 0, len(stats))
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it ended in between
		}
		if p, ok := parseStat(string(text)); ok && p.state != "Z" && p.state != "X" {
			list = append(list, p)
		}
	}
	return list
}

// parseStat reads a line of /proc/PID/stat. The name is in parentheses and may hold any character.
func parseStat(text string) (process, bool) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return process{}, false
	}
	fields := strings.Fields(text[end+1:])
	pid, err := strconv.Atoi(strings.TrimSpace(text[:open]))
	if err != nil || len(fields) < 20 {
		return process{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	return process{pid: pid, parent: parent, state: fields[0], began: fields[19], name: text[open+1 : end]}, err == nil
}

// children returns those of a process with a name, or all when the name is "".
func children(list []process, parent int, name string) []process {
	var found []process
	for _, p := range list {
		if p.parent == parent && (name == "" || p.name == name) {
			found = append(found, p)
		}
	}
	return found
}

// family returns everything below a process.
func family(list []process, parent int) []process {
	var found []process
	for _, p := range children(list, parent, "") {
		found = append(append(found, p), family(list, p.pid)...)
	}
	return found
}

// alive returns those of the given processes that still run.
func alive(wanted []process) []process {
	began := map[int]string{}
	for _, p := range processes() {
		began[p.pid] = p.began
	}
	var found []process
	for _, p := range wanted {
		if began[p.pid] == p.began {
			found = append(found, p)
		}
	}
	return found
}

// sessions are the processes of a PostgreSQL server that serve a client each.
func sessions(list []process, postmaster int) []process {
	var found []process
	for _, p := range children(list, postmaster, "postgres") {
		title, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if err == nil && bytes.Contains(title, []byte("[local]")) {
			found = append(found, p)
		}
	}
	return found
}

// of returns the processes that work in a folder or are told of it.
func of(folder string) []process {
	var found []process
	for _, p := range processes() {
		if p.pid == os.Getpid() {
			continue
		}
		cwd, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", p.pid))
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if strings.HasPrefix(cwd, folder) || bytes.Contains(args, []byte(folder)) {
			found = append(found, p)
		}
	}
	return found
}

// kill ends processes at once. They are halted first, all together, so that none has a child that the caller's list of
// them misses; look is called in between.
func kill(pids []int, look func()) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	look()
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}
