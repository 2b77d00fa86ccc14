package cluster

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/fault"
)

func TestJudge(t *testing.T) {
	no, yes := false, true
	for name, test := range map[string]struct {
		change func(f *facts)
		code   string
		warns  int
	}{
		"good":                    {func(*facts) {}, "", 0},
		"14":                      {func(f *facts) { f.version = 14_00_13 }, "database_version", 0},
		"15":                      {func(f *facts) { f.version = 15_00_00 }, "", 0},
		"latin":                   {func(f *facts) { f.encoding = "LATIN1" }, "database_encoding", 0},
		"standby":                 {func(f *facts) { f.standby, f.readOnly = true, true }, "database_standby", 0},
		"read only":               {func(f *facts) { f.readOnly = true }, "database_read_only", 0},
		"no fsync":                {func(f *facts) { f.fsync = false }, "database_fsync", 0},
		"early acknowledgement":   {func(f *facts) { f.synchronousCommit = "off" }, "database_synchronous_commit", 0},
		"local commit":            {func(f *facts) { f.synchronousCommit = "local" }, "", 0},
		"no rights":               {func(f *facts) { f.canCreate = false }, "database_rights", 0},
		"schema made for us":      {func(f *facts) { f.canCreate, f.schemaOwned = false, &yes }, "", 0},
		"schema of somebody else": {func(f *facts) { f.schemaOwned = &no }, "database_rights", 0},
		"transaction pool":        {func(f *facts) { f.second, f.announced = f.first, 77 }, "database_pooler", 0},
		"session pool":            {func(f *facts) { f.announced = 77 }, "", 1},
		"half pages":              {func(f *facts) { f.fullPageWrites = false }, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := facts{version: 18_00_04, encoding: "UTF8", fsync: true, synchronousCommit: "on", fullPageWrites: true, canCreate: true, announced: 1, first: 1, second: 2}
			test.change(&f)
			report, err := f.judge()
			code := ""
			if err != nil {
				code = fault.From(err).Code
				if fault.From(err).Hint == "" {
					t.Error("no way out is named")
				}
			}
			if code != test.code || (err == nil && len(report.Warnings) != test.warns) {
				t.Errorf("%q %v, want %q and %d warnings", code, report, test.code, test.warns)
			}
		})
	}
}

func TestLogWriter(t *testing.T) {
	var out bytes.Buffer
	var seen []string
	w := newLogWriter(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})), func(text string) { seen = append(seen, text) })
	// Split anywhere, and longer than any line may be.
	for _, part := range []string{
		"client backend [1] ERR", "OR:  theirs\nclient backend [1] DETAIL:  of theirs\n", "\n", "checkpointer [2] LOG:  routine\n",
		"autovacuum worker [3] ERROR:  ours\nautovacuum worker [3] HINT:  of ours\n\tgoes on\n", "client backend [4] PANIC:  all\n",
		"postmaster [5] WARNING:  " + strings.Repeat("x", 3*lineBytes), "\npostmaster [5] FATAL:  end\n",
	} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, fmt.Sprintf("%.60s", strings.TrimSpace(line)))
	}
	want := []string{
		`level=ERROR msg=postgresql process="autovacuum worker" text=`,
		`level=ERROR msg=postgresql process="autovacuum worker" text=`,
		`level=ERROR msg=postgresql process="" text="\tgoes on"`,
		`level=ERROR msg=postgresql process="client backend" text="PA`,
		`level=WARN msg=postgresql process=postmaster text="WARNING: `,
		`level=ERROR msg=postgresql process=postmaster text="FATAL: e`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(seen) != 9 {
		t.Errorf("%d lines seen", len(seen))
	}
	for i := range 100 {
		fmt.Fprintf(w, "line %d\n", i)
	}
	fmt.Fprint(w, "half")
	tail := w.tail()
	if n := strings.Count(tail, "\n"); n != tailLines+1 || !strings.HasSuffix(tail, "line 99\n  half") {
		t.Errorf("tail of %d lines: %s", n, tail)
	}
	if len(out.String()) > 3*lineBytes {
		t.Errorf("a long line came through whole: %d bytes", out.Len())
	}
}

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
