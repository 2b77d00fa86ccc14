// Package series is the calls about how queues did over time: what charts and sparklines are drawn from.
package series
