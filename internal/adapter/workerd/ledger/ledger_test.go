package ledger

import (
	"strconv"
	"testing"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/dispatch"
)

func TestACallIsFoundUnderWayAndForAWhileAfter(t *testing.T) {
	l := New()
	first := l.Begin([]string{"a", "b"}, "d1")
	if l.Find("a") != first || l.Find("b") != first || l.Find("c") != nil {
		t.Fatal("what is under way is found by each of its marks, and by no other")
	}
	l.End(first)
	second := l.Begin([]string{"a"}, "d2")
	if l.Find("a") != second || l.Find("b") != first {
		t.Error("what is under way comes before what was")
	}
	l.End(second)
	for i := range queue.RecentDeliveries {
		l.End(l.Begin([]string{strconv.Itoa(i)}, "more"))
	}
	if l.Find("a") != nil || l.Find("b") != nil || l.Find("0") == nil || len(l.recent) != queue.RecentDeliveries {
		t.Errorf("%d are kept", len(l.recent))
	}
}

func TestAnExceptionIsGivenOnce(t *testing.T) {
	l := New()
	delivery, run := l.Begin([]string{"a"}, "d"), l.Begin([]string{"cron"}, "")
	thrown := &dispatch.Exception{Message: "first"}
	l.Report(delivery, thrown)
	l.Report(delivery, &dispatch.Exception{Message: "second"})
	l.ReportAll(&dispatch.Exception{Message: "third"})
	if got := <-delivery.Exception(); got != thrown || len(delivery.Exception()) != 0 {
		t.Errorf("exception %+v", got)
	}
	if len(run.Exception()) != 0 {
		t.Error("a scheduled run has no queue handler to miss")
	}
}
