package cluster

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster/install"
)

// seesProcesses says that processesIn finds every process.
const seesProcesses = true

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
		if err != nil || strings.TrimSpace(string(name)) != install.ServerProgram {
			continue
		}
		if at, err := os.Stat(filepath.Join("/proc", entry.Name(), "cwd")); err == nil && os.SameFile(at, folder) {
			pids = append(pids, pid)
		}
	}
	return pids
}
