// Package cloudflare answers those calls of Cloudflare's HTTP API that this server has something for, in Cloudflare's
// shapes, so that clients made for it work here: who a token is, scripts, versions, deployments, secrets,
// queues, D1, KV and R2. A call that is not here is answered with code 7003, which names it.
package cloudflare
