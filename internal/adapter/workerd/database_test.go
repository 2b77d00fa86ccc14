package workerd

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/adapter/workerd/render"
	"github.com/runlot/runlot/internal/core/fault"
)

const password = `p"ss w:rd/@`

// server starts a PostgreSQL that listens on a unix socket and on TCP, with an app role that has the password above. It
// returns the app's way in, and both addresses.
func server(t *testing.T) (access cluster.Access, unix, tcp string) {
	t.Helper()
	c, dir := clustertest.Start(t)
	access, err := c.EnsureDatabase(t.Context(), "default")
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
	admin, err := c.Admin(t.Context())
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
	_, err = admin.Exec(t.Context(), "ALTER ROLE "+access.App.User+" PASSWORD '"+password+"'")
	if err := errors.Join(err, admin.Close(t.Context()), c.Stop(t.Context())); err != nil {
		t.Fatal(err)
	}
	access.App.Password = password
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	socketDir, _ := clustertest.Serve(t, dir, "listen_addresses=127.0.0.1", fmt.Sprintf("port=%d", port))
	return access, filepath.Join(socketDir, fmt.Sprintf(".s.PGSQL.%d", port)), fmt.Sprintf("127.0.0.1:%d", port)
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
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	result := api.Build(api.BuildOptions{
		Stdin:  &api.StdinOptions{Contents: code, ResolveDir: root},
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
	access, unix, tcp := server(t)
	code := bundled(t, client)
	rows := 0
	for _, test := range []struct{ name, network, address, path string }{
		{"unix", "unix", unix, "/"}, {"tcp", "tcp", tcp, "/fields"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := run(t, code, func(_ *Runtime, spec *Spec) {
				spec.Manifest.DatabaseBinding = "DATABASE"
				spec.Manifest.CompatibilityFlags = []string{"nodejs_compat"}
				spec.Database = &Database{Network: test.network, Address: test.address, Name: access.Database, User: access.App.User, Password: access.App.Password}
			})
			rows++
			want := make([][]string, 0, 2*rows)
			for _, name := range []string{"pg", "postgres"} {
				for range rows {
					want = append(want, []string{name, access.App.User, access.Database})
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
			config, err := os.ReadFile(filepath.Join(w.place.Dir, render.ConfigFile))
			if err != nil || strings.Contains(string(config), "w:rd") {
				t.Errorf("the configuration holds the password, or is missing: %v", err)
			}
		})
	}
}
