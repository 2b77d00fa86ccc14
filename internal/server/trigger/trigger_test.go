package trigger_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/schedule"
	"github.com/runlot/runlot/internal/server/trigger"
)

func TestTrigger(t *testing.T) {
	var cron string
	var at time.Time
	record, fails := schedule.Record{}, error(nil)
	handler := trigger.New(func(_ context.Context, c string, when time.Time) (*schedule.Record, error) {
		cron, at = c, when
		r := record
		r.Cron, r.At = c, when
		return &r, fails
	}, slog.New(slog.DiscardHandler))
	get := func(query string) (int, string) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, trigger.Path+query, http.NoBody))
		body, err := io.ReadAll(w.Result().Body)
		if err != nil {
			t.Fatal(err)
		}
		return w.Code, strings.TrimSpace(string(body))
	}
	record = schedule.Record{Outcome: queue.OK, Duration: 1500 * time.Microsecond}
	began := time.Now()
	if code, body := get(""); code != http.StatusOK || body != "ok" || cron != "" || at.Before(began) {
		t.Errorf("%d %s, cron %q at %s", code, body, cron, at)
	}
	if code, body := get("?cron=*%2F5+*+*+*+*&time=1745856238000"); code != http.StatusOK || body != "ok" || cron != "*/5 * * * *" || at.UnixMilli() != 1745856238000 {
		t.Errorf("%d %s, cron %q at %s", code, body, cron, at)
	}
	if code, body := get("?format=json&cron=a&time=1"); code != http.StatusOK ||
		body != `{"outcome":"ok","noRetry":false,"run":"ok","cron":"a","scheduledTime":1,"milliseconds":1.5}` {
		t.Errorf("%d %s", code, body)
	}
	record = schedule.Record{Outcome: queue.Failed, NoRetry: true, Error: &schedule.Exception{Name: "Error", Message: "no", Location: "a.ts:1:2"}}
	if code, body := get("?time=1"); code != http.StatusInternalServerError || body != "exception" {
		t.Errorf("%d %s", code, body)
	}
	if code, body := get("?format=json&time=1"); code != http.StatusInternalServerError ||
		body != `{"outcome":"exception","noRetry":true,"run":"failed","cron":"","scheduledTime":1,"milliseconds":0,"error":"Error: no","location":"a.ts:1:2"}` {
		t.Errorf("%d %s", code, body)
	}
	if code, body := get("?time=noon"); code != http.StatusBadRequest || !strings.Contains(body, `milliseconds since 1970, not "noon"`) {
		t.Errorf("%d %s", code, body)
	}
	fails = fault.New(fault.Unavailable, "x", "not running")
	if code, body := get(""); code != http.StatusServiceUnavailable || body != "not running" {
		t.Errorf("%d %s", code, body)
	}
}
