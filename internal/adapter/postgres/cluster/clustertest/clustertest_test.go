package clustertest_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(clustertest.Main(m)) }

func TestNewDatabase(t *testing.T) {
	for _, name := range []string{"one", "two"} {
		start := time.Now()
		access := clustertest.NewDatabase(t)
		t.Log(name, access.Database, time.Since(start))
		conn, err := pgx.Connect(t.Context(), access.OwnerURL())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		// The same table in each: the databases are apart.
		if _, err := conn.Exec(t.Context(), "CREATE TABLE public.here ()"); err != nil {
			t.Fatal(err)
		}
	}
}
