// Package storetest is the contract of store.Store as tests: every store passes it, the one over PostgreSQL and the one
// in memory, so that what is proved over the one holds over the other.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// Subject is a store under test, fresh and empty and without an owner, with what happens to a store from outside.
type Subject struct {
	Store store.Store
	// Another opens a second store on the same messages, as another node has it.
	Another func(t *testing.T) store.Store
	// Enqueue puts a JSON message into the inbox and commits, as SQL does.
	Enqueue func(t *testing.T, queueName, body string, delay time.Duration)
	// TryEnqueue does the same without a delay where it may be refused, and returns the text of the refusal; "" when there is none.
	TryEnqueue func(t *testing.T, queueName, body string) string
	// Sever ends the session on which the ownership of Store rests, as a broken connection does.
	Sever func(t *testing.T)
}

// patience is how long a test waits for what must happen.
const patience = 2 * time.Minute

// Run runs the contract. Open is called once for each test.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(t *testing.T, s *Subject)
	}{
		{"AcquireGivesIdentityEpochAndSeq", testAcquire},
		{"AcquireWaitsForTheOwner", testAcquireWaits},
		{"AcquireAgainReleasesFirst", testAcquireAgain},
		{"WritesNeedOwnership", testWritesNeedOwnership},
		{"ReleaseEndsOwnership", testRelease},
		{"LostOwnershipFencesWrites", testLost},
		{"ReserveOnlyRises", testReserve},
		{"DeclareIsIdempotentAndOrdered", testDeclare},
		{"DeclareRefusesBadNames", testDeclareInvalid},
		{"MarksAreKept", testMarks},
		{"AppendKeepsEveryField", testAppendFields},
		{"AppendOfAnySize", testAppendSizes},
		{"AppendIsAllOrNothing", testAppendAtomic},
		{"AppendWithEndedContext", testAppendEndedContext},
		{"ReadReadyBounds", testReadReady},
		{"ReadReadyBytes", testReadReadyBytes},
		{"ReadDueOrderAndBounds", testReadDue},
		{"ReadDueBytes", testReadDueBytes},
		{"ApplyDeletes", testApplyDelete},
		{"ApplyRetries", testApplyRetry},
		{"ApplyMoves", testApplyMove},
		{"ApplyTwiceDoesNoHarm", testApplyTwice},
		{"ApplyIsAllOrNothing", testApplyAtomic},
		{"DrainMovesInOrder", testDrain},
		{"DrainDelays", testDrainDelay},
		{"DrainIsBoundedInBytes", testDrainBytes},
		{"ExpireRange", testExpire},
		{"UsageIsOfTheCommit", testUsageOfCommit},
		{"UsageIsKeptAndSwept", testUsageKept},
		{"RefusalStopsSQL", testRefusal},
		{"SizeGrows", testSize},
		{"HeadsAreThoseOfTheReads", testHeads},
		{"FindById", testFind},
		{"Bodies", testBodies},
		{"DeadLettersKnowTheirSource", testDeadLetters},
		{"SettingsAreKept", testConfigure},
		{"ClearInboxOfOneQueue", testClearInbox},
		{"SnapshotStandsStill", testSnapshot},
		{"ConcurrentUse", testConcurrent},
		{"Model", testModel},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := open(t)
			test.run(t, &s)
		})
	}
}

// bench is a store with an owner and two queues, the state that most tests begin with.
type bench struct {
	*Subject
	own    store.Ownership
	queues []store.QueueInfo
	next   int64
}

func begin(t *testing.T, s *Subject) *bench {
	t.Helper()
	own := acquire(t, s.Store)
	queues, err := s.Store.Declare(t.Context(), []string{"jobs", "other"})
	check(t, err)
	check(t, s.Store.Reserve(t.Context(), own.NextSeq+1_000_000))
	return &bench{Subject: s, own: own, queues: queues, next: own.NextSeq}
}

// row makes the next message of a queue, visible at once.
func (b *bench) row(queueIndex int, body string) store.Row {
	b.next++
	return store.Row{
		Queue: b.queues[queueIndex].ID, Seq: b.next, Format: queue.JSON, SentAt: 1_750_000_000_000 + b.next%1000, Body: []byte(body),
	}
}

// rows makes and appends n messages.
func (b *bench) rows(t *testing.T, queueIndex, n int) []store.Row {
	t.Helper()
	rows := make([]store.Row, n)
	for i := range rows {
		rows[i] = b.row(queueIndex, fmt.Sprintf(`{"n":%d}`, i))
	}
	check(t, b.Store.Append(t.Context(), rows, nil))
	return rows
}

// all returns every message of a queue, ready ones first.
func (b *bench) all(t *testing.T, queueIndex int) []store.Row {
	t.Helper()
	return append(ready(t, b.Store, b.queues[queueIndex].ID), due(t, b.Store, b.queues[queueIndex].ID)...)
}

// endOfTime is a time in milliseconds that no message reaches, and endOfSeq the same of a Seq.
const endOfTime, endOfSeq = int64(9_000_000_000_000), int64(1) << 62

func ready(t *testing.T, s store.Store, id int32) []store.Row {
	t.Helper()
	rows, err := s.ReadReady(t.Context(), id, 0, endOfSeq, 1_000_000, 1<<30)
	check(t, err)
	return rows
}

func due(t *testing.T, s store.Store, id int32) []store.Row {
	t.Helper()
	rows, err := s.ReadDue(t.Context(), id, store.Due{}, endOfTime, 1_000_000, 1<<30)
	check(t, err)
	return rows
}

func acquire(t *testing.T, s store.Store) store.Ownership {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	own, err := s.Acquire(ctx)
	check(t, err)
	return own
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
}

// wait waits for a channel to close.
func wait(t *testing.T, done <-chan struct{}, what string) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		t.Fatalf("waited %s for %s", patience, what)
	}
}

// same compares rows; a body of no bytes is the same as none.
func same[T any](t *testing.T, what string, got, want []T) {
	t.Helper()
	if len(got) == 0 && len(want) == 0 {
		return
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(bytes.Equal)); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func wantCode(t *testing.T, err error, kind fault.Kind, code string) {
	t.Helper()
	if f, ok := errors.AsType[*fault.Error](err); !ok || f.Kind != kind || f.Code != code {
		t.Fatalf("error is %q, want a fault of kind %s with code %s", fault.Detail(err), kind, code)
	}
}

func seqs(rows []store.Row) []int64 {
	list := make([]int64, len(rows))
	for i, k := range keys(rows) {
		list[i] = k.Seq
	}
	return list
}

func keys(rows []store.Row) (list []store.Key) {
	for i := range rows {
		list = append(list, store.Key{Queue: rows[i].Queue, Seq: rows[i].Seq})
	}
	return list
}
