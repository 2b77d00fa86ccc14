package preflight_test

import (
	"bytes"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/adapter/postgres/preflight"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/fault/faulttest"
)

// TestCheckOfAPooler: one judge, whose judgement is that of the store: no pooler, in whatever mode.
func TestCheckOfAPooler(t *testing.T) {
	access := clustertest.NewDatabase(t)
	if _, err := preflight.Check(t.Context(), access.OwnerURL()); err != nil {
		t.Fatal(fault.Detail(err))
	}
	access.SocketDir = pooled(t, access)
	_, err := preflight.Check(t.Context(), access.OwnerURL())
	faulttest.Want(t, err, fault.Environment, "database_pooler", "direct address")
}

// pooled stands in front of a server as a pooler in session mode does: everything is passed on, but clients are given a
// process id that is the pooler's own. It returns the folder of its socket.
func pooled(t *testing.T, access cluster.Access) string {
	t.Helper()
	dir, name := t.TempDir(), ".s.PGSQL."+strconv.Itoa(access.Port)
	listener, err := net.Listen("unix", filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", filepath.Join(access.SocketDir, name))
			if err != nil {
				_ = client.Close()
				continue
			}
			work.Go(func() {
				_, _ = io.Copy(server, client)
				_ = server.Close()
			})
			work.Go(func() {
				defer client.Close()
				chunk := make([]byte, 64<<10)
				for {
					n, err := server.Read(chunk)
					// BackendKeyData: its type, its length and the process id.
					if at := bytes.Index(chunk[:n], []byte("K\x00\x00\x00\x0c")); at >= 0 && at+9 <= n {
						copy(chunk[at+5:], []byte{0, 0, 0, 7})
					}
					if _, failed := client.Write(chunk[:n]); failed != nil || err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		work.Wait()
	})
	return dir
}
