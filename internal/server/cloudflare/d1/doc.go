// Package d1 answers Cloudflare's calls about D1 databases: which there are, making one, and SQL in it.
package d1
