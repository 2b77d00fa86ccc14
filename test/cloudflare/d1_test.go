package cloudflare_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runlot/runlot/client"
)

// TestWranglerD1: files of SQL go in and come out, and a database is deleted when nobody uses it.
func TestWranglerD1(t *testing.T) {
	t.Parallel()
	h := open(t, "shop")
	h.wrangler("d1 create shop-db", `"database_id": "shop-db"`)
	h.wrangler("d1 create other")
	sql := "PRAGMA defer_foreign_keys=TRUE;\nBEGIN TRANSACTION;\nCREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT);\nINSERT INTO t (v) VALUES ('a;b'), ('it''s');\nCOMMIT;\n"
	if err := os.WriteFile(filepath.Join(h.dir, "in.sql"), []byte(sql), 0o600); err != nil {
		t.Fatal(err)
	}
	h.wrangler("d1 execute other --remote -y --file in.sql", "Total queries executed", "Rows written")
	h.wrangler("d1 execute other --remote --json --command 'SELECT v FROM t ORDER BY id'", `"v": "a;b"`, `"v": "it's"`)
	h.wrangler("d1 export other --remote --output out.sql", "Downloaded to out.sql")
	text, err := os.ReadFile(filepath.Join(h.dir, "out.sql"))
	if err != nil || !strings.Contains(string(text), `INSERT INTO "t" ("id","v") VALUES(2,'it''s');`) {
		t.Errorf("the export: %s %v", text, err)
	}
	h.wrangler("d1 create third")
	h.wrangler("d1 execute third --remote -y --file out.sql")
	h.wrangler("d1 execute third --remote --json --command 'SELECT count(*) AS n FROM t'", `"n": 2`)
	h.wrangler("d1 export third --remote --no-data --table t --output schema.sql")
	if text, err = os.ReadFile(filepath.Join(h.dir, "schema.sql")); err != nil || strings.Contains(string(text), "INSERT") || !strings.Contains(string(text), "CREATE TABLE t ") {
		t.Errorf("the export of the schema: %s %v", text, err)
	}
	h.refused("d1 time-travel info other", "celld keeps no earlier states")
	h.refused("d1 insights other", "celld keeps no statistics of queries")

	u, err := h.Upload(t.Context(), &client.Upload{
		App: "shop", ConfigFile: "wrangler.json",
		Config:  []byte(`{"name": "shop", "main": "a.js", "compatibility_date": "2026-04-01", "d1_databases": [{"binding": "DB", "database_name": "shop-db", "database_id": "shop-db"}]}`),
		Modules: []client.Module{{Name: "main.mjs", Kind: "esModule", Body: []byte(`export default { fetch() { return new Response("x"); } }`)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Deploy(t.Context(), "shop", &client.Deploy{Version: u.Version.ID}); err != nil {
		t.Fatal(err)
	}
	h.refused("d1 delete shop-db -y", "in use: shop")
	h.wrangler("d1 delete other -y", "Deleted 'other' successfully")
}
