package cluster

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster/serverlog"
)

// MaxConnections bounds the sessions of the embedded server. ReservedConnections of them are kept for the product
// itself, so that apps which open too many cannot stop deliveries.
const (
	MaxConnections      = 100
	ReservedConnections = 20
)

const (
	confName    = "runlot.conf"
	includeLine = "include '" + confName + "'"
)

// settings are the tunables of the server for this work. An operator overrides them in postgresql.conf below the
// include, or with ALTER SYSTEM; pinned are those that nobody can.
func settings(memory int64) string {
	// A queue's hot pages are few: the newest rows and the index's right edge. More memory serves the apps' own tables.
	buffers := min(max(memory/8, 128<<20), 1<<30)
	var text strings.Builder
	fmt.Fprintf(&text, `# Written at every start; changes here are lost. Put your own settings into postgresql.conf, below the line that includes this file.
max_connections = %d
reserved_connections = %d
shared_buffers = %dMB
`, MaxConnections, ReservedConnections, buffers>>20)
	text.WriteString(`huge_pages = try

# Every message is written once and deleted once: the log is the work. Few, spread checkpoints write few full pages.
wal_level = replica
max_wal_senders = 4
max_wal_size = 4GB
min_wal_size = 256MB
wal_buffers = 64MB
wal_compression = off
checkpoint_timeout = 15min
checkpoint_completion_target = 0.9

# Tables that turn over all the time: look often, and do not rest while cleaning.
autovacuum = on
autovacuum_naptime = 15s
autovacuum_vacuum_scale_factor = 0.05
autovacuum_vacuum_insert_scale_factor = 0.2
autovacuum_vacuum_cost_delay = 0

# A transaction that its client forgot keeps dead rows from being cleaned up.
idle_in_transaction_session_timeout = 15min

# Short statements only: compiling one takes longer than running it.
jit = off

# Statement texts hold the users' data and stay out of the log.
log_min_error_statement = panic
log_checkpoints = on
log_autovacuum_min_duration = -1
log_timezone = 'UTC'
timezone = 'UTC'
lc_messages = 'C'
`)
	return text.String()
}

// pinned returns the settings that are given on the command line, where they beat every file: what durability, privacy
// and this package's own reading of the log stand on.
func (c *Cluster) pinned() []string {
	return []string{
		"-c", "fsync=on",
		"-c", "synchronous_commit=on",
		"-c", "full_page_writes=on",
		// After a crash of one of its processes the server ends and is started anew. If it started itself over, a fast
		// shutdown that comes before it is up again, as the one that the kernel asks for when this process dies, would hang
		// it for good: PostgreSQL 18 waits there for the end of processes that it never tells to end.
		"-c", "restart_after_crash=off",
		"-c", "listen_addresses=",
		"-c", "port=" + strconv.Itoa(port),
		"-c", "unix_socket_directories=" + c.runDir,
		"-c", "unix_socket_permissions=0700",
		"-c", "logging_collector=off",
		"-c", "log_destination=stderr",
		"-c", "log_line_prefix=" + serverlog.Prefix,
	}
}

// writeConf writes the settings beside postgresql.conf. The data folder may belong to a user who is not trusted as root
// is, so an existing file is replaced, never followed.
func (c *Cluster) writeConf(data string) error {
	path := filepath.Join(data, confName)
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.WriteString(settings(memory())); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	return c.account.Give(path)
}

// included reports whether the data folder includes our settings: the mark of one that this package made.
func included(data string) bool {
	text, err := os.ReadFile(filepath.Join(data, "postgresql.conf"))
	return err == nil && bytes.Contains(text, []byte(includeLine))
}

// memory returns the bytes of memory that this process may use: the machine's, or less where a control group says so.
func memory() int64 {
	least := int64(math.MaxInt64)
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
				if kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64); err == nil {
					least = kib << 10
				}
			}
		}
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return least
	}
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		root, file := "/sys/fs/cgroup", "memory.max"
		if parts[1] == "memory" {
			root, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		} else if parts[1] != "" {
			continue
		}
		// A limit may stand at any level, and inside a container the path from the host may not exist: look upwards.
		for at := parts[2]; ; at = filepath.Dir(at) {
			if text, err := os.ReadFile(filepath.Join(root, at, file)); err == nil {
				if limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && limit > 0 {
					least = min(least, limit)
				}
			}
			if at == "/" || at == "." {
				break
			}
		}
	}
	return least
}
