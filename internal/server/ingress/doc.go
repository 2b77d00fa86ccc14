// Package ingress is the public door of an app: it takes HTTP requests and hands them to the process that serves at that
// moment. Clients keep their connections while processes come and go.
package ingress
