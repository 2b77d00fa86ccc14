package cloudflare_test

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
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

// buildTime bounds the build of a program over Cloudflare's Go package, which is large.
const buildTime = 10 * time.Minute

// TestGoSDK makes every call about queues of the Go package cloudflare-go.
func TestGoSDK(t *testing.T) {
	t.Parallel()
	// A module of its own keeps the package out of the product's.
	program := filepath.Join(t.TempDir(), "gosdk")
	ctx, cancel := context.WithTimeout(t.Context(), buildTime)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
	build.Dir = filepath.Join(tools, "gosdk")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, text)
	}
	h := open(t, "shop")
	ctx, cancel = context.WithTimeout(t.Context(), waitTime)
	defer cancel()
	c := exec.CommandContext(ctx, program)
	c.Dir, c.Env = h.dir, h.environment()
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	has(t, "gosdk", out.String(), "New\n", "Messages.Ack\n", "Delete\n")
}
