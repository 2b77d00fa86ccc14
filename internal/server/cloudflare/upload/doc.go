// Package upload is how Cloudflare's tools bring a script here: its code and bindings as one form, and around them what they
// ask and set of a script, which is its settings, its secrets, its schedules and the name under which it is reached.
package upload
