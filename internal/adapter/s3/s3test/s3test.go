// Package s3test serves a real S3 store to tests: test/s3server, which is built when it is first needed.
package s3test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/runlot/runlot/internal/adapter/s3"
)

// Credentials open every store.
var Credentials = s3.Credentials{ID: "tester", Secret: "secret-of-the-tester"}

// Bucket is the one that a store has, and Region its region.
const (
	Bucket = "store"
	Region = "us-east-1"
)

// build builds the program once for this process, in a folder that the caller of the first use has for as long.
var build = sync.OnceValues(func() (string, error) {
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(root, "test", "s3server", "go.mod")); err == nil || root == filepath.Dir(root) {
			break
		}
		root = filepath.Dir(root)
	}
	dir, err := os.MkdirTemp("", "s3server-*")
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "s3server")
	built = program
	c := exec.Command("go", "build", "-o", program, ".")
	c.Dir, c.Stderr = filepath.Join(root, "test", "s3server"), os.Stderr
	return program, c.Run()
})

// built is where the program is; "" before the first use.
var built string

// Remove removes the program, at the end of a TestMain.
func Remove() {
	if built != "" {
		_ = os.RemoveAll(filepath.Dir(built))
	}
}

// Serve starts an empty store, and returns its address, host:port. It ends with the test.
func Serve(t *testing.T) string {
	t.Helper()
	program, err := build()
	if err != nil {
		t.Fatalf("the S3 store cannot be built: %v", err)
	}
	dir, err := os.MkdirTemp("", "s3-*") // the path of its socket has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := exec.CommandContext(t.Context(), program, dir)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = c.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "127.0.0.1:") {
			return lines.Text()
		}
	}
	t.Fatalf("the S3 store did not start: %v", lines.Err())
	return ""
}
