package calls

import (
	"strconv"
	"testing"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/dispatch"
)

func TestACallIsFoundUnderWayAndForAWhileAfter(t *testing.T) {
	c := New()
	first := c.Begin([]string{"a", "b"}, "d1")
	if c.Find("a") != first || c.Find("b") != first || c.Find("c") != nil {
		t.Fatal("what is under way is found by each of its marks, and by no other")
	}
	c.End(first)
	second := c.Begin([]string{"a"}, "d2")
	if c.Find("a") != second || c.Find("b") != first {
		t.Error("what is under way comes before what was")
	}
	c.End(second)
	for i := range queue.RecentDeliveries {
		c.End(c.Begin([]string{strconv.Itoa(i)}, "more"))
	}
	if c.Find("a") != nil || c.Find("b") != nil || c.Find("0") == nil || len(c.recent) != queue.RecentDeliveries {
		t.Errorf("%d are kept", len(c.recent))
	}
}

func TestAnExceptionIsGivenOnce(t *testing.T) {
	c := New()
	delivery, run := c.Begin([]string{"a"}, "d"), c.Begin([]string{"cron"}, "")
	thrown := &dispatch.Exception{Message: "first"}
	delivery.Report(thrown)
	delivery.Report(&dispatch.Exception{Message: "second"})
	c.ReportAll(&dispatch.Exception{Message: "third"})
	if got := <-delivery.Exception; got != thrown || len(delivery.Exception) != 0 {
		t.Errorf("exception %+v", got)
	}
	if len(run.Exception) != 0 {
		t.Error("a scheduled run has no queue handler to miss")
	}
}
