package kv_test

import (
	"strings"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/core/kv"
)

func TestExpiration(t *testing.T) {
	now := time.Unix(1_000_000, 999)
	for _, c := range []struct {
		at, ttl string
		want    int64
		err     string
	}{
		{"", "", 0, ""},
		{"1000060", "", 1_000_060, ""},
		{"", "60", 1_000_060, ""},
		{"1", "3600", 1_003_600, ""},
		{"1000059", "", 0, "Invalid expiration of 1000059. Expiration times must be at least 60 seconds in the future."},
		{"1000000", "", 0, "Invalid expiration of 1000000. Please specify integer greater than the current number of seconds since the UNIX epoch."},
		{"1e9", "", 0, "Invalid expiration of 1e9. Please specify integer greater than the current number of seconds since the UNIX epoch."},
		{"", "59", 0, "Invalid expiration_ttl of 59. Expiration TTL must be at least 60."},
		{"", "0", 0, "Invalid expiration_ttl of 0. Please specify integer greater than 0."},
		{"", "-1", 0, "Invalid expiration_ttl of -1. Please specify integer greater than 0."},
		{"", "9223372036854775807", 0, "Invalid expiration_ttl of 9223372036854775807. Please specify integer greater than 0."},
	} {
		got, err := kv.Expiration(c.at, c.ttl, now)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if got != c.want || text != c.err {
			t.Errorf("at %q, ttl %q: %d, %q", c.at, c.ttl, got, text)
		}
	}
}

func TestChecks(t *testing.T) {
	good := []error{
		kv.CheckKey("a"), kv.CheckKey(strings.Repeat("é", 256)), kv.CheckKey("..."), kv.CheckKey(" /?#%00"),
		kv.CheckValue(25 << 20), kv.CheckMetadata(""), kv.CheckMetadata(`"` + strings.Repeat("x", 1022) + `"`), kv.CheckMetadata("null"),
		kv.CheckCacheTTL(""), kv.CheckCacheTTL("30"),
	}
	for i, err := range good {
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	bad := []error{
		kv.CheckKey(""), kv.CheckKey("."), kv.CheckKey(".."), kv.CheckKey(strings.Repeat("é", 256) + "x"), kv.CheckKey("\xff"),
		kv.CheckValue(25<<20 + 1), kv.CheckMetadata(`"` + strings.Repeat("x", 1023) + `"`), kv.CheckMetadata("x"),
		kv.CheckCacheTTL("29"), kv.CheckCacheTTL("x"),
	}
	for i, err := range bad {
		if err == nil {
			t.Errorf("%d is let through", i)
		}
	}
	for text, want := range map[string]int{"": 1000, "1": 1, "1000": 1000, "0": 0, "-1": 0, "1001": 0, "x": 0} {
		if got, err := kv.Limit(text); got != want || (err == nil) != (want > 0) {
			t.Errorf("limit %q: %d, %v", text, got, err)
		}
	}
}
