// Package endpoint is what every call of the API shares: who may make it, how it is described, and how it answers and fails.
package endpoint
