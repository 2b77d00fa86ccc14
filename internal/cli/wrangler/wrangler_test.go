package wrangler

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLines(t *testing.T) {
	want := `CLOUDFLARE_API_BASE_URL='http://127.0.0.1:8788/client/v4'
CLOUDFLARE_BASE_URL='http://127.0.0.1:8788/client/v4'
CLOUDFLARE_API_TOKEN='it'\''s'
CLOUDFLARE_ACCOUNT_ID='local'
WRANGLER_SEND_METRICS='false'
WRANGLER_SEND_ERROR_REPORTS='false'
WRANGLER_HIDE_BANNER='true'
`
	if diff := cmp.Diff(want, strings.Join(lines("http://127.0.0.1:8788", "it's", "local", true), "")); diff != "" {
		t.Errorf("for a file (-want +got):\n%s", diff)
	}
	for _, line := range lines("http://127.0.0.1:8788", "it's", "local", false) {
		if !strings.HasPrefix(line, "export ") {
			t.Errorf("for a shell: %s", line)
		}
	}
}
