package cluster

import (
	"strings"
	"testing"
)

func TestSettingsFollowMemory(t *testing.T) {
	for gib, want := range map[float64]string{0.25: "128MB", 1: "128MB", 4: "512MB", 8: "1024MB", 512: "1024MB"} {
		if got := settings(int64(gib * (1 << 30))); !strings.Contains(got, "shared_buffers = "+want+"\n") {
			t.Errorf("%v GiB: %s", gib, got)
		}
	}
	if got := memory(); got < 64<<20 || got > 1<<45 {
		t.Errorf("memory is %d", got)
	}
}
