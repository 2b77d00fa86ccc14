package messages_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/server/dashboard/messages"
)

// TestAnOperationIsCancelledInItsQueue: the page of another queue, or of one of its name in another database, does not end it.
func TestAnOperationIsCancelledInItsQueue(t *testing.T) {
	cancelled := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/operations/7/cancel" {
			cancelled++
		}
		_ = json.NewEncoder(w).Encode(client.Operation{ID: 7, Database: "shop", Queue: "jobs"})
	}))
	defer server.Close()
	api, err := client.New(server.URL, "token")
	if err != nil {
		t.Fatal(err)
	}
	form := url.Values{"operation": {"7"}}
	for _, at := range [][2]string{{"shop", "mails"}, {"mail", "jobs"}} {
		_, err := messages.Do(t.Context(), api, at[0], at[1], "cancel", form)
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != http.StatusNotFound || e.Code != "operation_unknown" {
			t.Errorf("at %v: %v", at, err)
		}
	}
	if cancelled != 0 {
		t.Error("it is cancelled from elsewhere")
	}
	if _, err := messages.Do(t.Context(), api, "shop", "jobs", "cancel", form); err != nil || cancelled != 1 {
		t.Errorf("%d times cancelled, %v", cancelled, err)
	}
}
