// Package prometheus shows what is known of the queues and apps of a node to Prometheus. Everything is read when it is
// asked for; nothing is registered globally. The labels are bounded: names of what was declared, and words of this package.
package prometheus

//go:generate go run ./metricsdoc ../../../docs/METRICS.md
