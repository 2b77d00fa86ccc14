//go:build !race

package dispatch_test

// raced says that the race detector watches.
const raced = false
