// Package storetest is the contract of an operations.Store, as tests that every store runs.
package storetest

import (
	"maps"
	"reflect"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/engine/operations"
)

// Run runs the contract. fresh returns a store without operations.
func Run(t *testing.T, fresh func(t *testing.T) operations.Store) {
	t.Helper()
	for name, test := range map[string]func(t *testing.T, s operations.Store){"round trip": roundTrip, "lists": lists, "forgets": forgets} {
		t.Run(name, func(t *testing.T) { test(t, fresh(t)) })
	}
}

var noon = time.Date(2026, 11, 30, 12, 0, 0, 123_456_000, time.UTC)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
}

// same compares two operations; a map without entries is one.
func same(t *testing.T, got, want *operations.Operation) {
	t.Helper()
	if len(got.Skipped) == 0 && len(want.Skipped) == 0 {
		got.Skipped, want.Skipped = nil, nil
	}
	if len(got.IDs) == 0 && len(want.IDs) == 0 {
		got.IDs, want.IDs = nil, nil
	}
	if !maps.Equal(got.Skipped, want.Skipped) || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func roundTrip(t *testing.T, s operations.Store) {
	o := &operations.Operation{
		Spec: operations.Spec{
			Kind: operations.Redrive, Database: "db", Queue: "dead", IDs: []string{"a", "b"}, Filter: `body.x:"ä \"y\""`, To: "jobs", Rate: 7, Author: "ann", App: "shop",
		},
		State: operations.Running, Created: noon,
	}
	must(t, s.AddOperation(t.Context(), o))
	if o.ID <= 0 {
		t.Errorf("id %d", o.ID)
	}
	got, err := s.Operation(t.Context(), o.ID)
	must(t, err)
	same(t, got, o)
	o.Counts = operations.Counts{Looked: 10, Matched: 5, Done: 3, Skipped: map[string]int64{"in_flight": 2}}
	o.Place, o.State, o.Error, o.Ended = "7.9", operations.Failed, "why", noon.Add(time.Minute)
	must(t, s.SaveOperation(t.Context(), o, 10))
	o.Skipped["in_flight"] = 2
	if got, err = s.Operation(t.Context(), o.ID); err == nil {
		got.Skipped["mine"] = 1
		got.IDs[0] = "mine"
	}
	must(t, err)
	got, err = s.Operation(t.Context(), o.ID)
	must(t, err)
	same(t, got, o)
	if _, err := s.Operation(t.Context(), o.ID+1); fault.KindOf(err) != fault.NotFound || fault.From(err).Code != operations.CodeUnknown {
		t.Errorf("one that does not exist: %v", err)
	}
	// Saving one that was forgotten does not bring it back.
	must(t, s.SaveOperation(t.Context(), &operations.Operation{ID: o.ID + 1, State: operations.Done, Created: noon, Ended: noon}, 10))
	if list, err := s.Operations(t.Context(), operations.Query{Limit: 10}); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

func add(t *testing.T, s operations.Store, database, queueName string) *operations.Operation {
	t.Helper()
	o := &operations.Operation{Spec: operations.Spec{Kind: operations.Delete, Database: database, Queue: queueName}, State: operations.Running, Created: noon}
	must(t, s.AddOperation(t.Context(), o))
	return o
}

func ids(list []operations.Operation) []int64 {
	ids := make([]int64, 0, len(list))
	for i := range list {
		ids = append(ids, list[i].ID)
	}
	return ids
}

func lists(t *testing.T, s operations.Store) {
	one, two, three := add(t, s, "db", "jobs"), add(t, s, "db", "mail"), add(t, s, "shop", "jobs")
	for _, c := range []struct {
		q    operations.Query
		want []int64
	}{
		{operations.Query{Limit: 10}, []int64{three.ID, two.ID, one.ID}},
		{operations.Query{Limit: 2}, []int64{three.ID, two.ID}},
		{operations.Query{Limit: 2, Before: two.ID}, []int64{one.ID}},
		{operations.Query{Limit: 10, Queue: "jobs"}, []int64{three.ID, one.ID}},
		{operations.Query{Limit: 10, Database: "db"}, []int64{two.ID, one.ID}},
		{operations.Query{Limit: 10, Database: "db", Queue: "none"}, []int64{}},
	} {
		list, err := s.Operations(t.Context(), c.q)
		must(t, err)
		if !reflect.DeepEqual(ids(list), c.want) {
			t.Errorf("%+v: %v, want %v", c.q, ids(list), c.want)
		}
	}
	two.State, two.Ended = operations.Cancelled, noon
	must(t, s.SaveOperation(t.Context(), two, 10))
	open, err := s.OpenOperations(t.Context())
	must(t, err)
	if want := []int64{one.ID, three.ID}; !reflect.DeepEqual(ids(open), want) {
		t.Errorf("open: %v, want %v", ids(open), want)
	}
}

// forgets keeps the newest that ended, and every one that is open.
func forgets(t *testing.T, s operations.Store) {
	open := add(t, s, "db", "jobs")
	all := make([]*operations.Operation, 0, 5)
	for range 5 {
		o := add(t, s, "db", "jobs")
		o.State, o.Ended = operations.Done, noon
		must(t, s.SaveOperation(t.Context(), o, 3))
		all = append(all, o)
	}
	list, err := s.Operations(t.Context(), operations.Query{Limit: 10})
	must(t, err)
	if want := []int64{all[4].ID, all[3].ID, all[2].ID, open.ID}; !reflect.DeepEqual(ids(list), want) {
		t.Errorf("kept %v, want %v", ids(list), want)
	}
}
