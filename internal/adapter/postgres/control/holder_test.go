package control_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/runlot/runlot/internal/adapter/postgres/control"
	"github.com/runlot/runlot/internal/core/fault"
)

// holdTime bounds each wait of these tests.
const holdTime = 30 * time.Second

var quiet = slog.New(slog.DiscardHandler)

// session opens a session of the test's own.
func session(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func TestOneCelldUsesTheRecords(t *testing.T) {
	s, url := open(t)
	first, err := s.Hold(t.Context(), "one", 0, quiet)
	must(t, err)
	_, err = s.Hold(t.Context(), "two", 300*time.Millisecond, quiet)
	code(t, err, control.CodeHeld)
	if !strings.Contains(err.Error(), "one") {
		t.Errorf("it does not name the first: %v", err)
	}
	// One that stops makes way for one that waits.
	type answer struct {
		h   *control.Holder
		err error
	}
	second := make(chan answer, 1)
	go func() {
		h, err := s.Hold(t.Context(), "two", holdTime, quiet)
		second <- answer{h, err}
	}()
	first.Release()
	got := <-second
	must(t, got.err)
	got.h.Release()
	// What is left of an earlier run of the same one is ended.
	left := session(t, url)
	_, err = left.Exec(t.Context(), "SELECT pg_advisory_lock(x'72756e6c6f746365'::bigint)")
	must(t, err)
	_, err = left.Exec(t.Context(), `UPDATE runlot_control.holder SET node = 'three', (pid, backend_start) =
		(SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid())`)
	must(t, err)
	third, err := s.Hold(t.Context(), "three", 0, quiet)
	must(t, err)
	third.Release()
	if err := left.Ping(t.Context()); err == nil {
		t.Error("the session of the earlier run lives on")
	}
}

func TestTheRecordsAreTakenAnewOrLost(t *testing.T) {
	_, url := open(t)
	var away atomic.Bool
	s, err := control.Open(t.Context(), func(context.Context) (string, error) {
		if away.Load() {
			return "", fault.New(fault.Unavailable, "away", "away")
		}
		return url, nil
	})
	must(t, err)
	defer s.Close()
	h, err := s.Hold(t.Context(), "one", 0, quiet)
	must(t, err)
	defer h.Release()
	conn := session(t, url)
	// holder is the session that has the records; end ends it.
	holder := func() (pid int) {
		t.Helper()
		must(t, conn.QueryRow(t.Context(), "SELECT pid FROM runlot_control.holder").Scan(&pid))
		return pid
	}
	end := func(pid int) {
		t.Helper()
		_, err := conn.Exec(t.Context(), "SELECT pg_terminate_backend($1, 5000)", pid)
		must(t, err)
	}
	before := holder()
	end(before)
	deadline := time.After(holdTime)
	for tick := time.Tick(20 * time.Millisecond); holder() == before; {
		select {
		case <-tick:
		case <-deadline:
			t.Fatal("the records are not taken anew")
		}
	}
	select {
	case <-h.Lost():
		t.Fatalf("they are lost: %v", h.Err())
	default:
	}
	// Another one is faster.
	away.Store(true)
	end(holder())
	other, err := control.Open(t.Context(), func(context.Context) (string, error) { return url, nil })
	must(t, err)
	defer other.Close()
	second, err := other.Hold(t.Context(), "two", holdTime, quiet)
	must(t, err)
	defer second.Release()
	away.Store(false)
	select {
	case <-h.Lost():
		code(t, h.Err(), control.CodeHeld)
	case <-time.After(holdTime):
		t.Error("the loss is not noticed")
	}
}
