package cloudflare

import (
	"net/http"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/server/cloudflare/r2"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// noNumbers is said of all other statistics.
const noNumbers = "celld keeps no statistics of queries, and answers none over GraphQL — its numbers are at /metrics"

// statistics answers those questions of Cloudflare's statistics that wrangler asks: about the use of a D1 database with
// nothing, and about an R2 bucket with what is in it.
func statistics(buckets *r2.Service) func(w http.ResponseWriter, c *wire.Call) error {
	return func(w http.ResponseWriter, c *wire.Call) error {
		in, err := wire.Body[struct {
			Query     string
			Variables struct {
				Filter struct {
					Bucket string `json:"bucketName"`
				}
			}
		}](c)
		if err != nil {
			return err
		}
		answer := map[string]any{}
		switch {
		case strings.Contains(in.Query, "d1AnalyticsAdaptiveGroups"):
			answer["d1AnalyticsAdaptiveGroups"] = []any{}
		case strings.Contains(in.Query, "r2StorageAdaptiveGroups"):
			objects, bytes, err := buckets.Totals(c, in.Variables.Filter.Bucket)
			if err != nil {
				// wrangler takes any JSON for numbers, an error too, and shows what is none.
				http.Error(w, fault.From(err).Error(), http.StatusServiceUnavailable)
				return nil
			}
			answer["r2StorageAdaptiveGroups"] = []any{map[string]any{
				"max":        map[string]int64{"objectCount": objects, "payloadSize": bytes, "metadataSize": 0},
				"dimensions": map[string]string{"datetime": wire.Stamp(time.Now())},
			}}
		default:
			// wrangler takes any JSON for numbers, an error too, and shows what is none.
			http.Error(w, noNumbers, http.StatusNotFound)
			return nil
		}
		return wire.Plain(w, map[string]any{"data": map[string]any{"viewer": map[string]any{"accounts": []any{answer}}}, "errors": nil})
	}
}
