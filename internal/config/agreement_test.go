package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/runlot/runlot/internal/config/runlotjson"
	"github.com/runlot/runlot/internal/core/queue"
)

// optional draws one of the values for a key, or leaves it out. The first value, which is good, comes most often: a file
// has many keys, and one bad value is enough to spoil it.
func optional(t *rapid.T, object map[string]any, key string, values ...any) {
	const rare = 10
	switch rapid.IntRange(0, rare).Draw(t, key+" kind") {
	case 0:
		object[key] = rapid.SampledFrom(values).Draw(t, key)
	case 1, 2, 3, 4, 5:
		object[key] = values[0]
	}
}

// odd are values that no range takes.
var odd = []any{"1", true, 1.5, []any{}, map[string]any{}}

// edge draws a number at an end of a range, in it or out of it.
func edge(t *rapid.T, object map[string]any, key string, lo, hi int) {
	optional(t, object, key, lo, hi, lo-1, hi+1, (lo+hi)/2, rapid.SampledFrom(odd).Draw(t, "odd"))
}

// TestSchemaAgrees: whatever stands in a file, the JSON Schema accepts it exactly when it compiles, but for the rules that
// a schema cannot express, which the draws leave alone.
func TestSchemaAgrees(t *testing.T) {
	validator := compileSchema(t)
	good := 0
	rapid.Check(t, func(t *rapid.T) {
		consumer, producer, queues := map[string]any{}, map[string]any{}, map[string]any{}
		consumer["queue"] = rapid.SampledFrom([]any{"jobs", "j", "a-b", "jobs", "jobs", "-a", "", "A", 1}).Draw(t, "queue")
		optional(t, consumer, "deadLetterQueue", "dead", "dead-", nil)
		switch rapid.IntRange(0, 8).Draw(t, "key") {
		case 0:
			edge(t, consumer, "maxBatchSize", 1, 100)
		case 1:
			edge(t, consumer, "maxBatchTimeout", 0, 60)
		case 2:
			edge(t, consumer, "maxRetries", 0, 10)
		case 3:
			edge(t, consumer, "maxConcurrency", 1, 250)
			optional(t, consumer, "maxConcurrency", nil)
		case 4:
			edge(t, consumer, "retryDelay", 0, 86400)
		case 5:
			edge(t, consumer, "retention", 60, 1209600)
		case 6:
			optional(t, consumer, "unknown", 1)
		}
		producer["queue"] = "jobs"
		optional(t, producer, "binding", "JOBS", "_", "$1", "JOBS", "JOBS", "1A", "a-b", "", "DATABASE", "__proto__")
		edge(t, producer, "deliveryDelay", 0, 86400)
		optional(t, queues, "producers", []any{}, []any{producer}, producer)
		optional(t, queues, "consumers", []any{}, []any{consumer}, []any{consumer}, []any{consumer}, consumer)
		file := map[string]any{"name": "app"}
		optional(t, file, "name", "app", "a", "App", "", nil)
		optional(t, file, "main", "index.js", "a/b.ts", "index.js", "index.js", "/a", "", `a\b`, "..", "../a", ".")
		optional(t, file, "database", "db", "db", "db", "d_b")
		optional(t, file, "compatibilityDate", "2026-11-17", "2024-02-29", "2024-13-01", "24-01-01", 2024)
		optional(t, file, "compatibilityFlags", []any{}, []any{"nodejs_als"}, []any{"webgpu"}, []any{"unsafe_x"}, []any{"a", "a"}, []any{""}, "a")
		optional(t, file, "queues", queues, queues, queues, queues, []any{}, nil)
		optional(t, file, "vars", map[string]any{"A": 1}, map[string]any{"DATABASE": 1}, map[string]any{"a b": 1}, []any{}, nil)
		optional(t, file, "crons", []any{}, []any{"* * * * *"}, []any{"0 9 * * MON-FRI", "*/5 * * * *"}, []any{"* * * *"}, []any{"@daily"}, []any{1}, "* * * * *", nil)
		optional(t, file, "$schema", "x", 1)
		d1 := map[string]any{}
		optional(t, d1, "binding", "DB", "DB", "DB", "DATABASE", "a-b", 1)
		optional(t, d1, "databaseName", "main", "main", "", 1)
		optional(t, d1, "databaseId", "0000", "<id>", "", nil)
		optional(t, d1, "migrationsDir", "sql", "../sql", ".", "/sql", `a\b`, "", 1)
		optional(t, d1, "migrationsTable", "applied", "_1", "1a", "a b", "", 1)
		optional(t, file, "d1Databases", []any{}, []any{d1}, []any{d1}, d1, nil)
		kv := map[string]any{}
		optional(t, kv, "binding", "CACHE", "CACHE", "CACHE", "DATABASE", "a-b", 1)
		optional(t, kv, "namespace", "cache", "cache", "<id>", "", nil)
		optional(t, file, "kvNamespaces", []any{}, []any{kv}, []any{kv}, kv, nil)
		bucket := map[string]any{}
		optional(t, bucket, "binding", "BUCKET", "BUCKET", "BUCKET", "DATABASE", "a-b", 1)
		optional(t, bucket, "bucket", "images", "a-1", "ab", "A", "-ab", "", nil)
		optional(t, file, "r2Buckets", []any{}, []any{bucket}, []any{bucket}, bucket, nil)
		object := map[string]any{}
		optional(t, object, "binding", "ROOM", "ROOM", "ROOM", "DATABASE", "a-b", 1)
		optional(t, object, "class", "Room", "Room", "Room_2", "2", "a-b", "", nil)
		optional(t, file, "durableObjects", []any{}, []any{object}, []any{object}, object, nil)
		migration := map[string]any{}
		optional(t, migration, "tag", "v1", "v1", "v1", "", 1)
		optional(t, migration, "newSqliteClasses", []any{"Wall"}, []any{"Wall"}, []any{"a-b"}, []any{1}, "Wall", nil)
		optional(t, migration, "renamedClasses", []any{map[string]any{"from": "Hut", "to": "House"}}, []any{map[string]any{"from": "Hut"}}, []any{map[string]any{}}, []any{"a"})
		optional(t, migration, "deletedClasses", []any{}, []any{"Bin"}, []any{""}, nil)
		optional(t, file, "migrations", []any{}, []any{migration}, []any{migration}, migration, nil)
		text, err := json.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		_, _, compiles := runlotjson.Compile("runlot.json", text)
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		validates := validator.Validate(value)
		if (compiles == nil) != (validates == nil) {
			t.Fatalf("%s\ncompiles: %v\nvalidates: %v", text, compiles, validates)
		}
		if compiles == nil {
			good++
		}
	})
	if good == 0 {
		t.Error("no draw is good")
	}
	t.Logf("%d draws are good", good)
}

// TestSchemaHasTheRanges: each end of each range is in, and the number beyond is out, in both.
func TestSchemaHasTheRanges(t *testing.T) {
	validator := compileSchema(t)
	for _, c := range []struct {
		list, key string
		lo, hi    int
	}{
		{"consumers", "maxBatchSize", 1, queue.MaxBatchSize},
		{"consumers", "maxBatchTimeout", 0, int(queue.MaxBatchTimeout.Seconds())},
		{"consumers", "maxRetries", 0, queue.LimitsOf(queue.Runlot).MaxRetries},
		{"consumers", "maxConcurrency", 1, queue.MaxConcurrency},
		{"consumers", "retryDelay", 0, int(queue.MaxDelay.Seconds())},
		{"consumers", "retention", int(queue.MinRetention.Seconds()), int(queue.MaxRetention.Seconds())},
		{"producers", "deliveryDelay", 0, int(queue.MaxDelay.Seconds())},
	} {
		for n, in := range map[int]bool{c.lo - 1: false, c.lo: true, c.hi: true, c.hi + 1: false} {
			entry := `"queue": "jobs"`
			if c.list == "producers" {
				entry += `, "binding": "JOBS"`
			}
			text := fmt.Sprintf(`{"name": "app", "main": "a.js", "database": "db", "queues": {"%s": [{%s, "%s": %d}]}}`, c.list, entry, c.key, n)
			_, _, compiles := runlotjson.Compile("runlot.json", []byte(text))
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			validates := validator.Validate(value)
			if (compiles == nil) != in || (validates == nil) != in {
				t.Errorf("%s\ncompiles: %v\nvalidates: %v", text, compiles, validates)
			}
		}
	}
}
