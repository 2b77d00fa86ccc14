// Package cloudflare_test drives a celld with Cloudflare's own tools as they are: wrangler, and the npm package cloudflare.
package cloudflare_test
