// Package remote is the commands that talk to a celld through its API.
package remote
