package sparkline

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/client"
)

func TestLines(t *testing.T) {
	from := time.UnixMilli(0)
	r := &client.QueueRates{From: from, Known: from.Add(60 * time.Second), StepSeconds: 30, In: []float64{0, 0, 0, 0.1, 80, 40}, Out: []float64{9, 9, 0, 0, 0, 0.25}}
	want := [][2]string{{"In", "▁▂█▅  40/s, at most 80/s in 2 min"}, {"Out", "▁▁▁█  0.25/s, at most 0.25/s in 2 min"}}
	if diff := cmp.Diff(want, Lines(r, true)); diff != "" {
		t.Error(diff)
	}
	want = [][2]string{{"In", "40/s, at most 80/s in 2 min"}, {"Out", "0.25/s, at most 0.25/s in 2 min"}}
	if diff := cmp.Diff(want, Lines(r, false)); diff != "" {
		t.Error(diff)
	}
	r.Known = from.Add(time.Hour)
	if lines := Lines(r, true); len(lines) != 0 {
		t.Errorf("what is not known is shown as %v", lines)
	}
}

func TestUTF8(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want bool
	}{
		{nil, false},
		{map[string]string{"LANG": "en_US.UTF-8"}, true},
		{map[string]string{"LANG": "en_US.utf8", "LC_ALL": "C"}, false},
		{map[string]string{"LANG": "C", "LC_CTYPE": "C.UTF-8"}, true},
	} {
		if got := UTF8(func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("%v: %t", c.env, got)
		}
	}
}
