// Package api is the HTTP API on the operator's listener: what the runlot command calls, and anyone may. Its paths are
// below /v1, with an OpenAPI document at /v1/openapi.json. Every call needs a token with the role for it. What has
// Cloudflare's shapes is package cloudflare.
package api
