package workerd

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// TestAnUnreadBodyCostsNoAnswer: workerd answers a request whose body the worker leaves unread, and closes the connection
// while the body may still be on its way. The answer counts, not the write that fails.
func TestAnUnreadBodyCostsNoAnswer(t *testing.T) {
	w := run(t, `export default { fetch() { return new Response("answer"); } };`, nil)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 60 {
				// A body that is not known to be in memory is written after the head.
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://worker/", io.MultiReader(strings.NewReader("bo"), strings.NewReader("dy")))
				if err != nil {
					t.Error(err)
					return
				}
				request.ContentLength = 4
				response, err := w.RoundTrip(request)
				if err != nil {
					t.Error(err)
					continue
				}
				text, err := io.ReadAll(response.Body)
				_ = response.Body.Close()
				if err != nil || string(text) != "answer" {
					t.Errorf("answer %q, error %v", text, err)
				}
			}
		})
	}
	wg.Wait()
}
