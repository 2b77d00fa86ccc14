// Package cloudflare_test drives a celld with Cloudflare's own tools as they are: wrangler, the npm package cloudflare, and the
// Go package cloudflare-go.
package cloudflare_test
