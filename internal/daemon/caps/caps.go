// Package caps is what bounds the databases of an instance: the daily cap of operations and the cap of the size, as they
// were set or follow from the apps, and the words in which a person is told that one is near or reached.
package caps

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/usage"
)

// Code is that of the fault that Parse functions fail with.
const Code = "cap_invalid"

// Settings are caps by the name of the database; "" stands for every one that is not named. A cap of 0 is off.
type Settings struct {
	// Operations are operations a day, Sizes bytes.
	Operations map[string]int64
	Sizes      map[string]int64
	// D1 is the largest size of each D1 database, in bytes; 0 is queue.D1DatabaseBytes.
	D1 int64
}

// find returns what was set for a database.
func find(settings map[string]int64, name string) (int64, bool) {
	if n, ok := settings[name]; ok {
		return n, true
	}
	n, ok := settings[""]
	return n, ok
}

// Daily is the daily cap of a database that apps of these dialects use; 0 is none. What was set counts. Else a database
// has the lowest default of its apps' dialects, so that one app that is to be bounded bounds all that share its queues.
func (s *Settings) Daily(name string, dialects []queue.Dialect) int64 {
	if n, ok := find(s.Operations, name); ok {
		return n
	}
	lowest := int64(0)
	for _, d := range dialects {
		if n := queue.LimitsOf(d).DailyOperations; n > 0 && (lowest == 0 || n < lowest) {
			lowest = n
		}
	}
	return lowest
}

// Space is what bounds the space of a database. free is that of its disk, nil when it is not ours to look after.
func (s *Settings) Space(name string, free func() (int64, error)) usage.Bounds {
	size, _ := find(s.Sizes, name)
	return usage.Bounds{Size: size, Free: free}
}

// Set reads values of --queue-ops-cap and of --database-size-cap.
func (s *Settings) Set(operations, sizes []string) (err error) {
	if s.Operations, err = parse("--queue-ops-cap", operations, parseOperations, "a number of operations a day", "500000"); err != nil {
		return err
	}
	s.Sizes, err = parse("--database-size-cap", sizes, parseSize, "a size of at least 16MiB", "10GB")
	return err
}

// SetD1 reads a value of --d1-size-cap; "" is the default.
func (s *Settings) SetD1(text string) error {
	if text == "" {
		return nil
	}
	n, ok := parseSize(text)
	if !ok {
		return fault.New(fault.Invalid, Code, "--d1-size-cap takes a size of at least 16MiB, not %q", text).WithHint("for example --d1-size-cap 2GB")
	}
	s.D1 = n
	return nil
}

// parse reads "VALUE" for every database and "NAME=VALUE" for one.
func parse(flag string, values []string, read func(string) (int64, bool), what, example string) (map[string]int64, error) {
	settings := map[string]int64{}
	for _, v := range values {
		name, text, named := strings.Cut(v, "=")
		if !named {
			name, text = "", v
		}
		n, ok := int64(0), strings.EqualFold(text, "off")
		if !ok {
			n, ok = read(text)
		}
		if !ok || named && name == "" {
			return nil, fault.New(fault.Invalid, Code, "%s takes %s or off, not %q", flag, what, v).
				WithHint("for example %s %s, or %s shop=%s for the database shop", flag, example, flag, example)
		}
		if _, twice := settings[name]; twice {
			return nil, fault.New(fault.Invalid, Code, "%s is given twice for the same database", flag).
				WithHint("NAME=VALUE gives each database its own")
		}
		settings[name] = n
	}
	return settings, nil
}

func parseOperations(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	// A hundred times as many are counted with.
	return n, err == nil && n > 0 && n <= math.MaxInt64/1000
}

// units of sizes, the longer ones first.
var units = []struct {
	name string
	size float64
}{
	{"tib", 1 << 40},
	{"gib", 1 << 30},
	{"mib", 1 << 20},
	{"kib", 1 << 10},
	{"tb", 1e12},
	{"gb", 1e9},
	{"mb", 1e6},
	{"kb", 1e3},
	{"b", 1},
	{"", 1},
}

func parseSize(text string) (int64, bool) {
	lower := strings.ToLower(strings.TrimSpace(text))
	for _, u := range units {
		number, ok := strings.CutSuffix(lower, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || math.IsNaN(n) {
			return 0, false
		}
		n *= u.size
		return int64(n), n >= queue.MinSizeCap && n < 1<<62
	}
	return 0, false
}

// Teller tells a person of a database's bounds. It implements usage.Observer.
type Teller struct {
	Database string
	Notice   func(text string)
}

// OperationsAlert implements usage.Observer.
func (t Teller) OperationsAlert(a usage.Alert) {
	until := a.Resets.Format("2006-01-02 15:04 UTC")
	if a.Percent < 100 {
		t.Notice(fmt.Sprintf("database %s has used %d %% of its %s queue operations of the day (%s); beyond the cap, sends are refused until %s",
			t.Database, a.Percent, usage.Grouped(a.Cap), usage.Grouped(a.Used), until))
		return
	}
	t.Notice(fmt.Sprintf("database %s has used up its %s queue operations of the day: sends are refused until %s, deliveries go on; --queue-ops-cap raises the cap",
		t.Database, usage.Grouped(a.Cap), until))
}

// SpaceChanged implements usage.Observer.
func (t Teller) SpaceChanged(f usage.Fullness) {
	if f.Full {
		t.Notice(fmt.Sprintf("database %s: %s; sends are refused, deliveries go on", t.Database, f.Message))
		return
	}
	t.Notice(fmt.Sprintf("database %s: %s", t.Database, f.Message))
}
