// Package queues answers Cloudflare's calls about queues, their messages and their consumers, in Cloudflare's shapes.
//
// A queue's id is a hash of its database and its name, so that it stays the same as long as both do. Cloudflare has one set
// of queues an account; here each database has its own, and a queue is called by its name alone where that says which one
// is meant: the queue of the database "default" first of all, else the only one of the name. Any queue may be called
// DATABASE/NAME, and one whose name alone means another is listed so.
package queues
