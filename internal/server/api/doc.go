// Package api is the HTTP API on the operator's listener: what the runlot command calls, and anyone may. Paths below
// /v1 are ours, with an OpenAPI document at /v1/openapi.json; those below /client/v4 have Cloudflare's shapes. Every
// call needs a token with the role for it.
package api
