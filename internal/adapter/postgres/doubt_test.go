package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/adapter/postgres"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// owner is a store that owns a fresh database through a proxy.
type owner struct {
	*postgres.Store
	d     *database
	proxy *proxy
	own   store.Ownership
	queue int32
	next  int64
}

func newOwner(t *testing.T) *owner {
	t.Helper()
	d := newDatabase(t)
	p, url := newProxy(t, d)
	options := d.options()
	options.URL = url
	s, err := postgres.Open(t.Context(), options)
	clustertest.Must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		clustertest.Must(t, s.Close(ctx))
	})
	o := &owner{Store: s, d: d, proxy: p}
	o.acquire(t)
	return o
}

func (o *owner) acquire(t *testing.T) {
	t.Helper()
	own, err := o.Acquire(t.Context())
	clustertest.Must(t, err)
	queues, err := o.Declare(t.Context(), []string{"jobs"})
	clustertest.Must(t, err)
	clustertest.Must(t, o.Reserve(t.Context(), own.NextSeq+1_000_000))
	o.own, o.queue, o.next = own, queues[0].ID, own.NextSeq
}

func (o *owner) rows(n int) []store.Row {
	rows := make([]store.Row, n)
	for i := range rows {
		o.next++
		rows[i] = store.Row{Queue: o.queue, Seq: o.next, Format: 1, SentAt: 1_000, Body: []byte(`{}`)}
	}
	return rows
}

func (o *owner) stored(t *testing.T) []store.Row {
	t.Helper()
	rows, err := o.ReadReady(t.Context(), o.queue, 0, 1<<62, 1_000_000, 1<<30)
	clustertest.Must(t, err)
	return rows
}

func (o *owner) wantStored(t *testing.T, want []store.Row) {
	t.Helper()
	got := o.stored(t)
	if len(got) == 0 && len(want) == 0 {
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("stored (-want +got):\n%s", diff)
	}
}

const (
	insertTrigger = "runlot_insert"
	copyTrigger   = "COPY runlot_queue.message"
	deleteTrigger = "runlot_delete"
	drainTrigger  = "runlot_drain"
)

var breakages = map[string]breakage{"request lost": lostRequest, "reply lost": lostReply, "cut while it runs": cutAtOnce}

// Whenever the connection breaks, an Append that returns nil is stored exactly once.
func TestAppendInDoubt(t *testing.T) {
	o := newOwner(t)
	var want []store.Row
	for name, kind := range breakages {
		for trigger, n := range map[string]int{insertTrigger: 3, copyTrigger: 200} {
			t.Run(fmt.Sprintf("%s, %d rows", name, n), func(t *testing.T) {
				clustertest.Must(t, o.Append(t.Context(), o.warm(&want), nil))
				rows := o.rows(n)
				struck := o.proxy.arm(trigger, kind)
				clustertest.Must(t, o.Append(t.Context(), rows, nil))
				<-struck
				want = append(want, rows...)
				o.wantStored(t, want)
			})
		}
	}
}

// warm makes a row that proves the session before the fault is armed.
func (o *owner) warm(want *[]store.Row) []store.Row {
	rows := o.rows(1)
	*want = append(*want, rows...)
	return rows
}

// A COPY that is cut in the middle of its data leaves nothing behind and is done again.
func TestCopyCutInTheMiddle(t *testing.T) {
	o := newOwner(t)
	rows := o.rows(3_000)
	struck := o.proxy.arm("PGCOPY", lostRequest)
	clustertest.Must(t, o.Append(t.Context(), rows, nil))
	<-struck
	o.wantStored(t, rows)
}

func TestApplyInDoubt(t *testing.T) {
	o := newOwner(t)
	for name, kind := range breakages {
		t.Run(name, func(t *testing.T) {
			rows := o.rows(5)
			clustertest.Must(t, o.Append(t.Context(), rows, nil))
			o.next++
			moved := o.next
			struck := o.proxy.arm(deleteTrigger, kind)
			key := func(i int) store.Key { return store.Key{Queue: o.queue, Seq: rows[i].Seq} }
			clustertest.Must(t, o.Apply(t.Context(), &store.Change{
				Delete: []store.Key{key(0)},
				Retry:  []store.Retry{{Key: key(1), Failures: 1, VisibleAt: 5}},
				Move:   []store.Move{{From: key(2), To: store.Key{Queue: o.queue, Seq: moved}}},
			}))
			<-struck
			last := rows[2]
			last.Seq, last.Origin = moved, rows[2].Seq
			o.wantStored(t, []store.Row{rows[3], rows[4], last})
			due, err := o.ReadDue(t.Context(), o.queue, store.Due{}, 10, 10, 1<<20)
			clustertest.Must(t, err)
			if len(due) != 1 || due[0].Seq != rows[1].Seq {
				t.Errorf("due: %+v", due)
			}
			expired, err := o.Expire(t.Context(), o.queue, 0, 1<<62, 100)
			clustertest.Must(t, err)
			if len(expired) != 4 {
				t.Errorf("%d messages were left, want 4", len(expired))
			}
		})
	}
}

// Expire tells what it deleted even when the answer to the deletion is lost.
func TestExpireInDoubt(t *testing.T) {
	o := newOwner(t)
	rows := o.rows(3)
	clustertest.Must(t, o.Append(t.Context(), rows, nil))
	struck := o.proxy.arm(deleteTrigger, lostReply)
	got, err := o.Expire(t.Context(), o.queue, 0, 1<<62, 2)
	clustertest.Must(t, err)
	<-struck
	if diff := cmp.Diff([]store.Expired{{Seq: rows[0].Seq, Bytes: 2}, {Seq: rows[1].Seq, Bytes: 2}}, got); diff != "" {
		t.Errorf("expired (-want +got):\n%s", diff)
	}
	o.wantStored(t, rows[2:])
}

func TestDrainInDoubt(t *testing.T) {
	o := newOwner(t)
	app := o.d.app(t)
	for name, kind := range breakages {
		t.Run(name, func(t *testing.T) {
			clustertest.Exec(t, app, "SELECT runlot_queue.send_batch('jobs', ARRAY['1', '2', '3']::jsonb[])")
			struck := o.proxy.arm(drainTrigger, kind)
			rows, err := o.Drain(t.Context(), o.next+1, time.Now(), 10)
			clustertest.Must(t, err)
			<-struck
			if len(rows) != 3 {
				t.Fatalf("drained %+v", rows)
			}
			o.next += 3
			o.wantStored(t, rows)
			clustertest.Must(t, o.Apply(t.Context(), &store.Change{Delete: keysOf(rows)}))
		})
	}
	if n := clustertest.One[int](t, o.d.connect(t), "SELECT count(*) FROM runlot_queue.inbox"); n != 0 {
		t.Errorf("%d rows are left in the inbox", n)
	}
}

func keysOf(rows []store.Row) []store.Key {
	keys := make([]store.Key, len(rows))
	for i := range rows {
		keys[i] = store.Key{Queue: rows[i].Queue, Seq: rows[i].Seq}
	}
	return keys
}

// A session that still works when its connection is cut is ended before the store looks, so that it cannot commit later.
func TestDoubtEndsTheOldSession(t *testing.T) {
	o := newOwner(t)
	clustertest.Must(t, o.Append(t.Context(), o.rows(1), nil))
	before := o.stored(t)
	watch := o.d.connect(t)
	writer := clustertest.One[int32](t, watch, `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'INSERT INTO runlot_queue.message%'`)
	holder := o.d.connect(t)
	clustertest.Exec(t, holder, "BEGIN")
	clustertest.Exec(t, holder, "LOCK TABLE runlot_queue.message IN SHARE MODE")
	rows := o.rows(2)
	struck := o.proxy.arm(insertTrigger, cutAtOnce)
	done := make(chan error, 1)
	go func() { done <- o.Append(t.Context(), rows, nil) }()
	<-struck
	// The repeated Append waits for the lock; the session that waited before it is gone.
	const waiting = `SELECT coalesce(array_agg(pid), '{}') FROM pg_locks WHERE relation = 'runlot_queue.message'::regclass AND NOT granted`
	until(t, func() []int32 { return clustertest.One[[]int32](t, watch, waiting) }, func(p []int32) bool { return len(p) == 1 && p[0] != writer })
	if clustertest.One[bool](t, watch, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)", writer) {
		t.Error("the session whose connection broke is still there")
	}
	clustertest.Exec(t, holder, "COMMIT")
	clustertest.Must(t, <-done)
	o.wantStored(t, append(before, rows...))
}

// until asks again and again until ok.
func until[T any](t *testing.T, ask func() T, ok func(T) bool) T {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		v := ask()
		if ok(v) {
			return v
		}
		if time.Now().After(deadline) {
			t.Fatalf("still %v after 30 seconds", v)
		}
	}
}

// Who stops waiting is told that nothing happened, and that becomes true before anything else is written.
func TestGivenUpIsTakenBack(t *testing.T) {
	o := newOwner(t)
	var want []store.Row
	app := o.d.app(t)
	giveUp := func(t *testing.T, trigger string, write func(ctx context.Context) error) {
		t.Helper()
		clustertest.Must(t, o.Append(t.Context(), o.warm(&want), nil))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		struck := o.proxy.arm(trigger, lostReply)
		o.proxy.setRefuse(true)
		done := make(chan error, 1)
		go func() { done <- write(ctx) }()
		<-struck
		watch := o.d.connect(t)
		until(t, func() int { return clustertest.One[int](t, watch, "SELECT count(*) FROM runlot_queue.message") }, func(n int) bool { return n > len(want) })
		cancel()
		if err := <-done; fault.KindOf(err) != fault.Unavailable {
			t.Fatalf("a write that was given up: %v, want a fault of kind unavailable", err)
		}
		o.proxy.setRefuse(false)
		clustertest.Must(t, o.Append(t.Context(), o.warm(&want), nil))
		o.wantStored(t, want)
	}
	t.Run("append", func(t *testing.T) {
		rows := o.rows(100)
		giveUp(t, copyTrigger, func(ctx context.Context) error { return o.Append(ctx, rows, nil) })
		// The same rows may be appended again.
		clustertest.Must(t, o.Append(t.Context(), rows, nil))
		clustertest.Must(t, o.Apply(t.Context(), &store.Change{Delete: keysOf(rows)}))
	})
	t.Run("drain", func(t *testing.T) {
		clustertest.Exec(t, app, "SELECT runlot_queue.send_batch('jobs', ARRAY['1', '2', '3']::jsonb[])")
		first := o.next + 1
		o.next += 10
		giveUp(t, drainTrigger, func(ctx context.Context) error {
			_, err := o.Drain(ctx, first, time.Now(), 10)
			return err
		})
		rows, err := o.Drain(t.Context(), o.next+1, time.Now(), 10)
		clustertest.Must(t, err)
		if len(rows) != 3 || string(rows[0].Body) != "1" || string(rows[2].Body) != "3" {
			t.Errorf("drained %+v", rows)
		}
	})
}

// An owner that hangs, loses its lock and wakes up again cannot write any more.
func TestFrozenOwnerIsFenced(t *testing.T) {
	o := newOwner(t)
	rows := o.rows(2)
	clustertest.Must(t, o.Append(t.Context(), rows[:1], nil))
	o.proxy.freeze()
	done := make(chan error, 1)
	go func() { done <- o.Append(t.Context(), rows[1:], nil) }()
	// The server ends the session of a machine that is gone; here it is ended by hand.
	admin := o.d.connect(t)
	clustertest.Exec(t, admin, `SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory' AND granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	other := o.d.open(t)
	own, err := other.Acquire(t.Context())
	clustertest.Must(t, err)
	const sessions = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1`
	if n := clustertest.One[int](t, admin, sessions, fmt.Sprintf("runlot/%d", o.own.Epoch)); n != 0 {
		t.Errorf("%d sessions of the earlier owner are left", n)
	}
	o.proxy.thaw()
	if err := <-done; fault.From(err).Code != store.CodeOwnershipLost {
		t.Errorf("the earlier owner's write: %v", fault.Detail(err))
	}
	<-o.own.Lost
	got, err := other.ReadReady(t.Context(), o.queue, 0, 1<<62, 10, 1<<20)
	clustertest.Must(t, err)
	if diff := cmp.Diff(rows[:1], got); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	if own.Epoch <= o.own.Epoch {
		t.Errorf("epoch %d does not follow %d", own.Epoch, o.own.Epoch)
	}
}

// A session that is opened after another node has raised the epoch refuses to write, even before its store has noticed.
func TestEpochFencesNewSessions(t *testing.T) {
	o := newOwner(t)
	clustertest.Must(t, o.Append(t.Context(), o.rows(1), nil))
	before := o.stored(t)
	clustertest.Exec(t, o.d.connect(t), "UPDATE runlot_queue.owner SET epoch = epoch + 1")
	struck := o.proxy.arm(insertTrigger, lostRequest)
	err := o.Append(t.Context(), o.rows(1), nil)
	<-struck
	if fault.From(err).Code != store.CodeOwnershipLost {
		t.Errorf("a write under an old epoch: %v", fault.Detail(err))
	}
	if err := o.Reserve(t.Context(), o.next+5_000_000); fault.From(err).Code != store.CodeOwnershipLost {
		t.Errorf("a reservation under an old epoch: %v", fault.Detail(err))
	}
	o.wantStored(t, before)
}
