package cloudflare_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/runlot/runlot/client"
)

var uuid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// TestWranglerDeploys: a project goes from its first deployment to its deletion by wrangler alone; what wrangler and runlot
// deploy is one list of versions, and each rolls back what the other deployed.
func TestWranglerDeploys(t *testing.T) {
	t.Parallel()
	h := open(t, "shop")
	ctx := t.Context()
	h.wrangler("whoami", "the first admin", "local")
	h.refused("queues info orders", `Queue "orders" does not exist`)
	h.wrangler("queues create orders", "Created queue 'orders'")
	h.wrangler("queues create orders-dlq")
	h.wrangler("d1 create shop-db", `"database_id": "shop-db"`)
	h.wrangler("d1 list", "shop-db")
	h.wrangler("d1 migrations list shop-db --remote", "0001_orders.sql")
	h.wrangler("d1 migrations apply shop-db --remote", "0001_orders.sql")
	h.wrangler("d1 migrations list shop-db --remote", "No migrations to apply")

	// The first deployment, with its triggers.
	h.edit("src/index.ts", "RELEASE", "one")
	h.wrangler("deploy", "env.ORDERS", "env.DB", "schedule: 0 3 * * *", "Producer for orders", "Consumer for orders", "Current Version ID", "https://shop.localhost:")
	has(t, "the app", h.ask("/"), `"greeting":"hello","lines":["a","b"],"release":"one"`)
	count(t, "sent", h.ask("/order?item=tea"), "sent")
	h.until("/orders", `["tea"]`)
	h.wrangler("queues info orders", "orders", "worker:shop")
	crons, err := h.Crons(ctx, "shop")
	if err != nil || len(crons) != 1 || crons[0].Cron != "0 3 * * *" {
		t.Errorf("crons: %+v, %v", crons, err)
	}

	// Secrets survive deployments.
	h.wranglerWith("sesame", "secret put API_KEY", "Success! Uploaded secret API_KEY")
	if err := os.WriteFile(filepath.Join(h.dir, "bulk.json"), []byte(`{"BULK_A":"1","BULK_B":"2"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	h.wrangler("secret bulk bulk.json", "2 secrets successfully uploaded")
	h.wrangler("secret list", "API_KEY", "BULK_A", "BULK_B", "secret_text")
	h.wrangler("secret delete BULK_B", "Success! Deleted secret BULK_B")
	_, before := h.live()

	// The second deployment is one version more.
	h.edit("src/index.ts", `"one"`, `"two"`)
	h.wrangler("deploy --message second", "Current Version ID")
	has(t, "the app", h.ask("/"), `"release":"two","key":"sesame","bulk":["1",null]`)
	two, all := h.live()
	count(t, "versions", len(all), len(before)+1)
	count(t, "message", two.Message, "second")
	count(t, "consumed", len(two.Consumers), 1)
	h.wrangler("versions list", two.ID)
	h.wrangler("versions view "+two.ID, two.ID, "2026-04-01", "env.ORDERS", "nodejs_compat")
	h.wrangler("deployments list", two.ID, "(100%)")
	h.wrangler("deployments status", two.ID)

	// A version that is uploaded serves when it is deployed.
	h.edit("src/index.ts", `"two"`, `"three"`)
	three := uuid.FindString(h.wrangler("versions upload", "Worker Version ID"))
	has(t, "the app", h.ask("/"), `"release":"two"`)
	h.wrangler("versions deploy "+three+"@100% -y", "Deployed shop version "+three)
	has(t, "the app", h.ask("/"), `"release":"three"`)
	h.refused("versions deploy "+two.ID+"@50% "+three+"@50% -y", "one version for 100 percent")

	// wrangler goes back to what it deployed before, runlot to what wrangler uploaded, and wrangler over what runlot deployed.
	h.wrangler("rollback -y -m oops", two.ID, "deployed to 100% of traffic")
	has(t, "the app", h.ask("/"), `"release":"two"`)
	d, err := h.Deploy(ctx, "shop", &client.Deploy{Version: three, Rollback: true})
	if err != nil || d.Version.ID != three {
		t.Fatal(d, err)
	}
	has(t, "the app", h.ask("/"), `"release":"three"`)
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
	h.wrangler("versions list", u.Version.ID, "by runlot")
	h.wrangler("rollback "+two.ID+" -y", two.ID)
	has(t, "the app", h.ask("/"), `"release":"two"`)
	count(t, "sent", h.ask("/order?item=rice"), "sent")
	h.until("/orders", `["rice","tea"]`)

	// Code that does not start is refused with its place, and what runs goes on.
	h.edit("src/index.ts", "export default {", "throw new Error(`no luck`);\nexport default {")
	h.refused("deploy", "no luck", "10021")
	has(t, "the app", h.ask("/"), `"release":"two"`)
	h.edit("src/index.ts", "throw new Error(`no luck`);\n", "")

	// Triggers alone.
	h.edit("wrangler.jsonc", "0 3 * * *", "30 4 * * *")
	h.wrangler("triggers deploy", "schedule: 30 4 * * *")
	crons, err = h.Crons(ctx, "shop")
	if err != nil || len(crons) != 1 || crons[0].Cron != "30 4 * * *" {
		t.Errorf("crons: %+v, %v", crons, err)
	}

	h.wrangler("d1 execute shop-db --remote --json --command 'SELECT count(*) AS n FROM orders'", `"n": 2`)
	h.refused("d1 execute shop-db --remote --command 'SELEC 1'", "syntax error")
	h.wrangler("d1 info shop-db", "shop-db")
	h.refused("d1 delete shop-db -y", "in use: shop")

	h.refused("vectorize list", "/accounts/local/vectorize/v2/indexes is not a call of this server", "7003")
	h.wrangler("delete --force", "Successfully deleted shop")
	if _, err := h.App(ctx, "shop"); err == nil {
		t.Error("shop is still there")
	}
	if text := strings.ToLower(h.ask("/")); !strings.Contains(text, "no app") {
		t.Error(text)
	}
}
