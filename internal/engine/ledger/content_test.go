package ledger_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/ledger"
)

func TestTextsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := start(t)
		r := batch("jobs")
		long := strings.Repeat("ü", queue.RecordStack)
		r.Reason, r.Error = long, &ledger.Exception{Message: "a\x00b\xffc", Stack: long}
		for i := range queue.RecordWarnings + 5 {
			r.Warnings = append(r.Warnings, fmt.Sprintf("line %d\nof two", i))
		}
		r.Fates = make([]ledger.Fate, 3*queue.MaxBatchSize)
		l.Batch(r)
		stop(l)
		got := s.All("jobs")[0]
		if len(got.Reason) > queue.RecordText || !strings.HasSuffix(got.Reason, "ü…") || len(got.Error.Stack) > queue.RecordStack {
			t.Errorf("reason of %d bytes, stack of %d", len(got.Reason), len(got.Error.Stack))
		}
		if got.Error.Message != "a\uFFFDb\uFFFDc" || got.Error.Name != "Error" {
			t.Errorf("error %q", *got.Error)
		}
		if n := len(got.Warnings); n != queue.RecordWarnings+1 || got.Warnings[0] != "line 0 of two" || got.Warnings[n-1] != "and 5 more" {
			t.Errorf("warnings %q", got.Warnings)
		}
		if len(got.Fates) != queue.MaxBatchSize {
			t.Errorf("%d fates", len(got.Fates))
		}
	})
}

func TestLinesGoWithTheirRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := start(t)
		line := func(n int) ledger.Line {
			return ledger.Line{Time: time.UnixMilli(int64(n)), Level: "info", Text: fmt.Sprintf("line %d", n)}
		}
		first, second := batch("jobs"), batch("jobs")
		first.Delivery, second.Delivery = "first", "second"
		l.Log("first", line(1))
		l.Log("other", line(2))
		l.Batch(first)
		time.Sleep(queue.RecordLinger / 2)
		l.Log("first", line(3))
		l.Batch(second)
		time.Sleep(time.Second)
		all := s.All("jobs")
		if diff := cmp.Diff([]ledger.Line{line(1), line(3)}, all[0].Lines); diff != "" || all[1].Lines != nil {
			t.Errorf("lines of the second batch: %v; of the first: %s", all[1].Lines, diff)
		}
	})
}

func TestLinesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := start(t)
		short, long := batch("jobs"), batch("jobs")
		short.Delivery, long.Delivery = "short", "long"
		for range queue.RecordLines + 3 {
			l.Log("short", ledger.Line{Text: "x"})
			l.Log("long", ledger.Line{Text: strings.Repeat("x", 10*queue.RecordText)})
		}
		l.Batch(short)
		l.Batch(long)
		time.Sleep(time.Second)
		all := s.All("jobs")
		if n := len(all[0].Lines); n != queue.RecordLines+1 || all[0].Lines[n-1].Text != "and 3 more" {
			t.Errorf("%d lines, the last is %+v", n, all[0].Lines[n-1])
		}
		if n := len(all[1].Lines); n != queue.RecordLogBytes/queue.RecordText+1 {
			t.Errorf("%d long lines", n)
		}
	})
}
