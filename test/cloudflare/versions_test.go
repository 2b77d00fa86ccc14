package cloudflare_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/runlot/runlot/client"
)

// TestWranglerVersions: one deployment is one version, a rollback loses neither crons nor consumers, a version can bring
// secrets of its own, and each tool goes back to what the other deployed.
func TestWranglerVersions(t *testing.T) {
	t.Parallel()
	h := open(t, "shop")
	ctx := t.Context()
	h.wrangler("queues create orders")
	h.wrangler("queues create orders-dlq")
	h.wrangler("d1 create shop-db")
	h.wrangler("d1 migrations apply shop-db --remote")

	h.edit("src/index.ts", "RELEASE", "one")
	h.wrangler("deploy", "schedule: 0 3 * * *", "Consumer for orders")
	one, all := h.live()
	count(t, "versions of the first deployment", len(all), 1)
	count(t, "its consumers", len(one.Consumers), 1)
	h.edit("src/index.ts", `"one"`, `"two"`)
	h.edit("wrangler.jsonc", "0 3 * * *", "0 5 * * *")
	h.wrangler("deploy", "schedule: 0 5 * * *")
	two, all := h.live()
	count(t, "versions of two deployments", len(all), 2)
	crons := func(want string) {
		t.Helper()
		list, err := h.Crons(ctx, "shop")
		if err != nil || len(list) != 1 || list[0].Cron != want {
			t.Errorf("crons %+v, %v; want %s", list, err, want)
		}
	}
	crons("0 5 * * *")
	h.wrangler("rollback "+one.ID+" -y", one.ID)
	crons("0 3 * * *")
	back, _ := h.live()
	count(t, "consumers after a rollback", len(back.Consumers), 1)
	count(t, "sent", h.ask("/order?item=tea"), "sent")
	h.until("/orders", `["tea"]`)
	h.wrangler("rollback "+two.ID+" -y", two.ID)
	crons("0 5 * * *")

	// Secrets of a version hold once it is deployed.
	h.wranglerWith("old", "secret put API_KEY")
	has(t, "the app", h.ask("/"), `"key":"old"`)
	h.wranglerWith("new", "versions secret put API_KEY", "Created version", "with secret API_KEY")
	has(t, "the app", h.ask("/"), `"key":"old"`)
	if err := os.WriteFile(filepath.Join(h.dir, "bulk.json"), []byte(`{"BULK_A":"1","BULK_B":"2"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	h.wrangler("versions secret bulk bulk.json", "with 2 secrets")
	h.wrangler("versions secret list", "Version "+two.ID+" (100%)", "API_KEY")
	h.wrangler("versions secret list --latest-version", "(0%)", "API_KEY", "BULK_A", "BULK_B")
	id := uuid.FindString(h.wrangler("versions secret delete BULK_B", "with deleted secret BULK_B"))
	h.wrangler("versions view "+id, "API_KEY", "BULK_A", "env.ORDERS")
	has(t, "the app", h.ask("/"), `"key":"old","bulk":[null,null]`)
	h.wrangler("versions deploy "+id+"@100% -y", id)
	has(t, "the app", h.ask("/"), `"release":"two","key":"new","bulk":["1",null]`)
	crons("0 5 * * *")
	h.wrangler("secret list", "API_KEY", "BULK_A")
	h.wrangler("deployments status", id)
	h.refused("versions view 00000000-0000-7000-8000-000000000000", "has no version")

	// wrangler goes back to what runlot deployed.
	u, err := h.Upload(ctx, &client.Upload{
		App: "shop", ConfigFile: "wrangler.json", Message: "by runlot",
		Config:  []byte(`{"name": "shop", "main": "a.js", "compatibility_date": "2026-04-01", "queues": {"producers": [{"binding": "ORDERS", "queue": "orders"}]}}`),
		Modules: []client.Module{{Name: "main.mjs", Kind: "esModule", Body: []byte(`export default { fetch() { return new Response("runlot's"); } }`)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Deploy(ctx, "shop", &client.Deploy{Version: u.Version.ID}); err != nil {
		t.Fatal(err)
	}
	h.wrangler("versions view "+u.Version.ID, "env.ORDERS")
	h.wrangler("rollback "+id+" -y", id)
	has(t, "the app", h.ask("/"), `"release":"two"`)
	h.wrangler("rollback "+u.Version.ID+" -y", u.Version.ID)
	has(t, "the app", h.ask("/"), "runlot's")
	d, err := h.Deploy(ctx, "shop", &client.Deploy{Version: id, Rollback: true})
	if err != nil || d.Version.ID != id {
		t.Fatal(d, err)
	}
	has(t, "the app", h.ask("/"), `"release":"two"`)
}
