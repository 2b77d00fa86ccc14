package uncaught_test

import (
	"fmt"
	"testing"

	"github.com/runlot/runlot/internal/adapter/workerd/uncaught"
	"github.com/runlot/runlot/internal/engine/dispatch"
)

func TestTakeFindsTheNewestOnce(t *testing.T) {
	u := uncaught.New()
	_, more := u.Take("Error", "x")
	u.Add(&dispatch.Exception{Name: "Error", Message: "x", Stack: "old"})
	u.Add(&dispatch.Exception{Name: "Error", Message: "x", Stack: "new"})
	select {
	case <-more:
	default:
		t.Error("who waits is not told of a new one")
	}
	for _, want := range []string{"new", "old"} {
		if e, _ := u.Take("Error", "x"); e == nil || e.Stack != want {
			t.Errorf("took %+v, want %s", e, want)
		}
	}
	if e, _ := u.Take("Error", "x"); e != nil {
		t.Errorf("took %+v a second time", e)
	}
}

func TestTheOldestIsForgotten(t *testing.T) {
	u := uncaught.New()
	for i := range 65 {
		u.Add(&dispatch.Exception{Name: "Error", Message: fmt.Sprint(i)})
	}
	if e, _ := u.Take("Error", "0"); e != nil {
		t.Error("65 are kept")
	}
	if e, _ := u.Take("Error", "1"); e == nil {
		t.Error("64 are not kept")
	}
}
