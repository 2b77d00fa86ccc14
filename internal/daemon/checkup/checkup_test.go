package checkup_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/daemon/celld"
	"github.com/runlot/runlot/internal/daemon/checkup"
	"github.com/runlot/runlot/internal/daemon/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(clustertest.Main(m)) }

// run checks, and returns what was found by the name of the check.
func run(t *testing.T, s *celld.Settings) map[string]checkup.Finding {
	t.Helper()
	if s.Listen == "" {
		s.Listen, s.Operator = "127.0.0.1:0", "127.0.0.1:0"
	}
	list, err := checkup.Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]checkup.Finding{}
	for _, f := range list {
		found[f.Check] = f
	}
	return found
}

func want(t *testing.T, found map[string]checkup.Finding, check string, state checkup.State, text string) {
	t.Helper()
	f, ok := found[check]
	if !ok || f.State != state || !strings.Contains(f.Text, text) || state == checkup.Fail && f.Hint == "" {
		t.Errorf("%s is %+v, not %s with %q", check, f, state, text)
	}
}

func TestAMachineThatIsFit(t *testing.T) {
	data := filepath.Join(t.TempDir(), "new", "data")
	found := run(t, &celld.Settings{Data: data})
	want(t, found, "data folder", checkup.OK, "at the first start")
	want(t, found, "workerd", checkup.OK, "runs")
	want(t, found, "PostgreSQL", checkup.OK, "18")
	want(t, found, "public port", checkup.OK, "free")
	want(t, found, "operator port", checkup.OK, "free")
	if _, err := os.Lstat(filepath.Dir(data)); err == nil {
		t.Error("the check has made something")
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	want(t, run(t, &celld.Settings{Data: data}), "data folder", checkup.OK, data)
	if entries, err := os.ReadDir(data); err != nil || len(entries) > 0 {
		t.Errorf("the check has left %v (%v)", entries, err)
	}
}

func TestWhatHasToBeMended(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	found := run(t, &celld.Settings{Data: filepath.Join(file, "data"), Listen: l.Addr().String(), Operator: "192.0.2.1:80"})
	want(t, found, "data folder", checkup.Fail, "cannot be written to")
	want(t, found, "public port", checkup.Fail, "is in use")
	want(t, found, "operator port", checkup.Fail, "cannot listen")

	data := t.TempDir()
	if err := os.Chmod(data, 0o777); err != nil {
		t.Fatal(err)
	}
	want(t, run(t, &celld.Settings{Data: data}), "data folder", checkup.Warn, "other users")
	if err := os.Mkdir(filepath.Join(data, state.Restoring), 0o700); err != nil {
		t.Fatal(err)
	}
	want(t, run(t, &celld.Settings{Data: data}), "data folder", checkup.Fail, "cut off")
}

// TestARunningInstance has its folder and its ports, which is as it should be.
func TestARunningInstance(t *testing.T) {
	data := t.TempDir()
	folder, err := state.Open(data, false)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	l, err := folder.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	found := run(t, &celld.Settings{Data: data, Listen: l.Addr().String(), Operator: "127.0.0.1:0"})
	want(t, found, "data folder", checkup.OK, "celld runs on it")
	want(t, found, "public port", checkup.OK, "the celld that runs")
}

func TestAnOwnPostgres(t *testing.T) {
	good := clustertest.NewDatabase(t).OwnerURL()
	found := run(t, &celld.Settings{Data: t.TempDir(), DatabaseURLs: map[string]string{"": good}})
	want(t, found, "database", checkup.OK, "its clock agrees")
	if _, ok := found["PostgreSQL"]; ok {
		t.Error("the embedded server is checked, which is not needed")
	}
	found = run(t, &celld.Settings{Data: t.TempDir(), DatabaseURLs: map[string]string{
		"good": good, "away": "postgres://nobody:secret@127.0.0.1:1/none",
	}})
	want(t, found, "database good", checkup.OK, "PostgreSQL")
	want(t, found, "database away", checkup.Fail, "does not answer")
	want(t, found, "PostgreSQL", checkup.OK, "runs")
	if text := fmt.Sprint(found); strings.Contains(text, "secret") {
		t.Errorf("the password is shown: %s", text)
	}
}

func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := checkup.Run(ctx, &celld.Settings{Data: t.TempDir(), Listen: "127.0.0.1:0", Operator: "127.0.0.1:0"}); err == nil {
		t.Error("it goes on after its end")
	}
}
