package envtypes_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/config"
	"github.com/runlot/runlot/internal/config/envtypes"
)

func load(t *testing.T, env string, files ...string) *config.Loaded {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		if err := os.WriteFile(filepath.Join(dir, files[i]), []byte(files[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	loaded, err := config.Load(dir, config.Choice{Env: env})
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

const shop = `{
  "name": "shop", "main": "index.ts", "database": "shop",
  "queues": { "producers": [{ "binding": "ORDERS", "queue": "orders" }, { "binding": "MAIL", "queue": "mail" }] },
  "d1Databases": [{ "binding": "DB", "databaseName": "main" }],
  "kvNamespaces": [{ "binding": "CACHE", "namespace": "main" }],
  "vars": {
    "zone": "eu", "LIMIT": 3, "DEBUG": true, "NOTHING": null, "OPEN": {},
    "REGIONS": ["eu", "us"], "MIXED": ["a", 1, "b"], "EMPTY": [],
    "MAIL_FROM": { "name": "Shop", "reply-to": { "on": false } }
  }
}`

const want = "// Made by `runlot types` from runlot.json; run it again after a change there.\n" +
	`/// <reference types="@cloudflare/workers-types" />

declare namespace Cloudflare {
  interface Env {
    /** Sends to the queue orders. */
    ORDERS: Queue<unknown>;
    /** Sends to the queue mail. */
    MAIL: Queue<unknown>;
    /** The D1 database main. */
    DB: D1Database;
    /** The KV namespace main. */
    CACHE: KVNamespace;
    /** The PostgreSQL database shop, which holds the queues. */
    DATABASE: Hyperdrive;
    DEBUG: boolean;
    EMPTY: unknown[];
    LIMIT: number;
    MAIL_FROM: {
      name: string;
      "reply-to": {
        on: boolean;
      };
    };
    MIXED: (number | string)[];
    NOTHING: null;
    OPEN: Record<string, never>;
    REGIONS: string[];
    zone: string;
    /** A secret. */
    API_KEY: string;
    /** A secret. */
    B_KEY: string;
  }
}

interface Env extends Cloudflare.Env {}
`

func TestEverythingThatEnvHolds(t *testing.T) {
	for range 20 { // maps have another order each time
		loaded := load(t, "", "runlot.json", shop, ".dev.vars", "B_KEY=hunter2\nAPI_KEY=hunter3\n")
		got := envtypes.Declare(loaded, "")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
		if strings.Contains(got, "hunter") {
			t.Fatal("a secret's value is in the declaration")
		}
	}
}

func TestAnEnvironmentOfAWranglerFile(t *testing.T) {
	loaded := load(t, "prod", "wrangler.toml", `
name = "shop"
main = "index.js"
[env.prod]
vars = { STAGE = "prod" }
hyperdrive = [{ binding = "PG", id = "shop" }]
`)
	got := envtypes.Declare(loaded, "prod")
	for _, line := range []string{"`runlot types --env prod` from wrangler.toml", "    PG: Hyperdrive;\n", "    STAGE: string;\n"} {
		if !strings.Contains(got, line) {
			t.Errorf("%q is missing in:\n%s", line, got)
		}
	}
	if !strings.HasPrefix(got, envtypes.Mark) {
		t.Errorf("the declaration does not begin with its mark:\n%s", got)
	}
}
