package checkup

import (
	"strings"
	"testing"
	"time"
)

func TestClocks(t *testing.T) {
	for apart, want := range map[time.Duration]struct {
		state State
		text  string
	}{
		0: {OK, "agrees"}, 2 * time.Second: {OK, "agrees"}, -2 * time.Second: {OK, "agrees"},
		2100 * time.Millisecond: {Warn, "2.1s from"}, -time.Minute: {Warn, "1m0s from"},
		61 * time.Second: {Fail, "1m1s from"}, -time.Hour: {Fail, "1h0m0s from"},
	} {
		c := &checkup{}
		c.clocks("database", "16.4", apart)
		if f := c.list[0]; f.State != want.state || !strings.Contains(f.Text, want.text) || (f.Hint == "") != (want.state == OK) {
			t.Errorf("%s apart is %+v", apart, f)
		}
	}
}
