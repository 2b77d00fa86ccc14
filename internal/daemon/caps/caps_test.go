package caps

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/usage"
)

func TestSet(t *testing.T) {
	var s Settings
	err := s.Set([]string{"5000", "shop=off", "crm=1"}, []string{"off", "shop=10GB", "crm=1.5GiB", "log=16MiB", "old=16777216"})
	if err != nil {
		t.Fatal(err)
	}
	want := Settings{
		Operations: map[string]int64{"": 5000, "shop": 0, "crm": 1},
		Sizes:      map[string]int64{"": 0, "shop": 10_000_000_000, "crm": 3 << 29, "log": 16 << 20, "old": 16 << 20},
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

func TestSetRefuses(t *testing.T) {
	for _, v := range []string{"", "0", "-1", "many", "1.5", "=5", "shop=", "1e6", "99999999999999999999", "9000000000000000000"} {
		if err := new(Settings).Set([]string{v}, nil); fault.From(err) == nil || fault.From(err).Code != Code {
			t.Errorf("--queue-ops-cap %q: %v", v, err)
		}
	}
	for _, v := range []string{"", "0", "15MiB", "GB", "10XB", "-10GB", "shop=", "=10GB", "NaN", "Inf", "9999999TiB", "1GB2"} {
		if err := new(Settings).Set(nil, []string{v}); fault.From(err) == nil || fault.From(err).Code != Code {
			t.Errorf("--database-size-cap %q: %v", v, err)
		}
	}
	for text, want := range map[string]int64{"": 0, "16MiB": 16 << 20, "2GB": 2e9} {
		s := new(Settings)
		if err := s.SetD1(text); err != nil || s.D1 != want {
			t.Errorf("--d1-size-cap %q: %d, %v", text, s.D1, err)
		}
	}
	for _, v := range []string{"0", "15MiB", "off", "shop=1GB"} {
		if err := new(Settings).SetD1(v); fault.From(err) == nil || fault.From(err).Code != Code {
			t.Errorf("--d1-size-cap %q: %v", v, err)
		}
	}
	for _, twice := range [][]string{{"5", "6"}, {"shop=5", "shop=5"}} {
		if new(Settings).Set(twice, nil) == nil {
			t.Errorf("%q sets a cap twice", twice)
		}
	}
}

func TestDaily(t *testing.T) {
	runlot, wrangler := queue.Runlot, queue.Wrangler
	for _, c := range []struct {
		name     string
		set      []string
		dialects []queue.Dialect
		want     int64
	}{
		{"no app", nil, nil, 0},
		{"an app of runlot.json", nil, []queue.Dialect{runlot}, 1_000_000},
		{"an app of wrangler.json", nil, []queue.Dialect{wrangler}, 0},
		{"one of both bounds both", nil, []queue.Dialect{wrangler, runlot, wrangler}, 1_000_000},
		{"set for all", []string{"7"}, []queue.Dialect{wrangler}, 7},
		{"set for this one", []string{"7", "shop=9"}, []queue.Dialect{runlot}, 9},
		{"set for another", []string{"other=9"}, []queue.Dialect{wrangler}, 0},
		{"off", []string{"shop=off"}, []queue.Dialect{runlot}, 0},
		{"off for all but this one", []string{"off", "shop=3"}, []queue.Dialect{runlot}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s Settings
			if err := s.Set(c.set, nil); err != nil {
				t.Fatal(err)
			}
			if got := s.Daily("shop", c.dialects); got != c.want {
				t.Errorf("daily cap %d, want %d", got, c.want)
			}
		})
	}
}

func TestTeller(t *testing.T) {
	var said []string
	teller := Teller{Database: "shop", Notice: func(text string) { said = append(said, text) }}
	midnight := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	teller.OperationsAlert(usage.Alert{Percent: 90, Used: 91, Cap: 100, Resets: midnight})
	teller.OperationsAlert(usage.Alert{Percent: 100, Used: 100, Cap: 100, Resets: midnight})
	teller.SpaceChanged(usage.Fullness{Full: true, Message: "it is full"})
	teller.SpaceChanged(usage.Fullness{Message: "it has space"})
	want := [][]string{
		{"shop", "90 %", "2026-12-01 00:00 UTC"},
		{"shop", "used up", "2026-12-01 00:00 UTC", "--queue-ops-cap"},
		{"shop", "it is full", "refused"},
		{"shop", "it has space"},
	}
	if len(said) != len(want) {
		t.Fatalf("said %q", said)
	}
	for i, parts := range want {
		for _, part := range parts {
			if !strings.Contains(said[i], part) {
				t.Errorf("%q does not say %q", said[i], part)
			}
		}
	}
}
