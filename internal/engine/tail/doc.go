// Package tail hands the invocations of an app's handlers to those who follow them live. A process tells of each only while
// somebody does, and nothing ever waits for a reader.
package tail
