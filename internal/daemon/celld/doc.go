// Package celld is the daemon: it keeps apps that were deployed to it running, parks those that are idle, and answers
// the public on one address and its operators on another.
package celld
