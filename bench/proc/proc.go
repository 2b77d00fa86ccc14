// Package proc reads from /proc what processes cost: CPU time and memory. Where there is no /proc it finds nothing,
// and the figures that need it are left out.
package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ticks is the number of clock ticks in a second, which Linux fixes at 100 for what programs see.
const ticks = 100

// Roles of processes beside the names of their programs.
const (
	// Client is this process: what drives the figure, and an engine that runs inside it.
	Client = "client"
	// Daemon is a copy of this program that runs the product.
	Daemon = "daemon"
)

// CPU is seconds of processor time by role: Client, Daemon, or a program's name.
type CPU map[string]float64

// Sub returns the time that was used since an earlier reading.
func (c CPU) Sub(earlier CPU) CPU {
	used := CPU{}
	for role, seconds := range c {
		if d := seconds - earlier[role]; d > 0 {
			used[role] = d
		}
	}
	return used
}

// Total is the sum over all roles.
func (c CPU) Total() float64 {
	total := 0.0
	for _, seconds := range c {
		total += seconds
	}
	return total
}

// process is one row of the process table.
type process struct {
	pid, parent int
	name        string
	// own is the time of the process itself, reaped that of its children which have ended, in ticks.
	own, reaped int64
}

// ReadCPU returns what this process, the given ones and their descendants have used so far.
func ReadCPU(roots ...int) CPU {
	cpu := CPU{}
	table := read()
	self := table[os.Getpid()]
	if self == nil {
		return cpu
	}
	// Children of this process that have ended belong to earlier figures.
	cpu[Client] = float64(self.own) / ticks
	for _, p := range trees(table, roots) {
		cpu[role(p, self)] += float64(p.own+p.reaped) / ticks
	}
	return cpu
}

func role(p, self *process) string {
	if p.name == self.name {
		return Daemon
	}
	return p.name
}

// trees returns the processes with the given ids and their descendants, without this one.
func trees(table map[int]*process, roots []int) []*process {
	children := map[int][]*process{}
	for _, p := range table {
		children[p.parent] = append(children[p.parent], p)
	}
	var found, next []*process
	for _, pid := range roots {
		if p := table[pid]; p != nil && pid != os.Getpid() {
			next = append(next, p)
		}
	}
	for len(next) > 0 {
		p := next[0]
		next = append(next[1:], children[p.pid]...)
		found = append(found, p)
	}
	return found
}

func read() map[int]*process {
	table := map[int]*process{}
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return table
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if p := parse(string(text)); p != nil {
			table[p.pid] = p
		}
	}
	return table
}

// parse reads /proc/PID/stat. The name stands in parentheses and may hold any character.
func parse(stat string) *process {
	open, end := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return nil
	}
	fields := strings.Fields(stat[end+1:])
	if len(fields) < 15 {
		return nil
	}
	number := func(s string) int64 {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	return &process{
		pid: int(number(strings.TrimSpace(stat[:open]))), parent: int(number(fields[1])), name: stat[open+1 : end],
		own: number(fields[11]) + number(fields[12]), reaped: number(fields[13]) + number(fields[14]),
	}
}

// Memory is bytes of memory of a set of processes.
type Memory struct {
	// RSS is all that is resident. Pages that several processes share are counted once for each.
	RSS int64 `json:"rss"`
	// PSS is the same with each shared page divided among those who share it.
	PSS int64 `json:"pss"`
	// Private is what no other process has mapped: what would be free again without them.
	Private int64 `json:"private"`
}

// ReadMemory returns the memory of a process and its descendants by role.
func ReadMemory(root int) map[string]Memory {
	byRole := map[string]Memory{}
	table := read()
	self := table[os.Getpid()]
	if self == nil {
		return byRole
	}
	for _, p := range trees(table, []int{root}) {
		m := byRole[role(p, self)]
		m.add(filepath.Join("/proc", strconv.Itoa(p.pid), "smaps_rollup"))
		byRole[role(p, self)] = m
	}
	return byRole
}

func (m *Memory) add(path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		return
	}
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) != 3 || fields[2] != "kB" {
			continue
		}
		kib, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			continue
		}
		switch fields[0] {
		case "Rss:":
			m.RSS += kib << 10
		case "Pss:":
			m.PSS += kib << 10
		case "Private_Clean:", "Private_Dirty:":
			m.Private += kib << 10
		}
	}
}
