// Package d1 answers Cloudflare's calls about D1 databases: which there are, making and deleting one, SQL in it, and files
// of SQL that come and go.
package d1
