package celld_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// newEar is a server that notes the paths it is asked for.
func newEar(t *testing.T, told chan<- string) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { told <- r.URL.Path }))
	t.Cleanup(server.Close)
	return server.URL
}
