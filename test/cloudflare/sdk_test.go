package cloudflare_test

import (
	"path/filepath"
	"testing"
)

// TestSDK makes every call about queues of the npm package cloudflare.
func TestSDK(t *testing.T) {
	t.Parallel()
	h := open(t, "shop")
	out, err := h.node("", filepath.Join(tools, "sdk.mjs"))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	has(t, "sdk.mjs", out, "create\n", "consumers.delete\n", "subscriptions.list\n", "subscriptions.delete\n")
}
