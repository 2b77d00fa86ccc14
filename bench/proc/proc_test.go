package proc

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
)

func TestParse(t *testing.T) {
	p := parse("42 (a) b (c)) S 7 42 42 0 -1 4194560 100 0 0 0 11 22 33 44 20 0 1 0 5 6 7\n")
	if p == nil || *p != (process{pid: 42, parent: 7, name: "a) b (c)", own: 33, reaped: 77}) {
		t.Errorf("parsed %+v", p)
	}
	for _, text := range []string{"", "42 a S 7", "42 (a) S 7"} {
		if p := parse(text); p != nil {
			t.Errorf("%q is parsed as %+v", text, p)
		}
	}
}

// TestTrees finds a child of a child, and nobody else's.
func TestTrees(t *testing.T) {
	table := map[int]*process{
		10: {pid: 10, parent: 1}, 11: {pid: 11, parent: 10}, 12: {pid: 12, parent: 11}, 13: {pid: 13, parent: 1},
	}
	if found := trees(table, []int{10, 99}); len(found) != 3 {
		t.Errorf("%d processes, want 10, 11 and 12", len(found))
	}
}

// TestReadsRealProcesses reads a child that waits for its input.
func TestReadsRealProcesses(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = in.Close()
		_ = child.Wait()
	}()
	cpu := ReadCPU(child.Process.Pid)
	if len(cpu) != 2 {
		t.Errorf("time of %v, want that of this process and its child", cpu)
	}
	memory := ReadMemory(os.Getpid())
	if len(memory) != 0 {
		t.Errorf("this process is counted among its own descendants: %v", memory)
	}
	for role, m := range ReadMemory(child.Process.Pid) {
		if m.RSS <= 0 || m.PSS <= 0 || m.PSS > m.RSS || m.Private > m.RSS {
			t.Errorf("memory of %s: %+v", role, m)
		}
	}
}

func TestSub(t *testing.T) {
	used := CPU{Client: 3, "postgres": 5, "gone": 1}.Sub(CPU{Client: 1, "gone": 2})
	if used.Total() != 7 || used[Client] != 2 || used["postgres"] != 5 {
		t.Errorf("used %v", used)
	}
}
