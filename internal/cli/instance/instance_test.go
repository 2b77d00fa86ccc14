package instance

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runlot/runlot/internal/cli/terminal"
)

// tellAll tells of two steps: one that goes on and on behind what was said to be its end, and one of which nothing is known.
func tellAll(p *progress) {
	for done := int64(0); done <= 3<<20; done += 1 << 10 {
		p.tell("Copying", done, max(done, 1<<20))
		<-time.After(time.Millisecond / 10)
	}
	p.tell("Syncing", 0, 0)
	p.end()
	p.end()
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		out := terminal.Plain(&b, 80)
		out.Interactive = true
		tellAll(&progress{out: out})
		want := "\rCopying …   0 % of 1.0 MiB   " + "\rCopying …  97 % of 1.0 MiB   " + "\rCopying … 100 % of 2.0 MiB   " + "\rCopying … 100 % of 2.9 MiB   " +
			"\rCopying … 100 % of 3.0 MiB   \n" + "\rSyncing …\n"
		if got := b.String(); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		b.Reset()
		tellAll(&progress{out: terminal.Plain(&b, 80)})
		if got := b.String(); got != "Copying …\nSyncing …\n" {
			t.Errorf("outside a terminal it says %q", got)
		}
	})
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 KiB", 1: "1 KiB", 1 << 20: "1.0 MiB", 3 << 29: "1.5 GiB"} {
		if got := size(n); got != want {
			t.Errorf("%d is %s, not %s", n, got, want)
		}
	}
}
