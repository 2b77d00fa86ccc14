// Package client talks to the API of celld. The runlot command is built on it, and so may be anything else.
//
//	c, err := client.New("http://127.0.0.1:8788", token)
//	apps, err := c.Apps(ctx)
//
// An error that the server gave is an [*Error], with a stable code, a sentence for a person and, mostly, the way out.
package client
