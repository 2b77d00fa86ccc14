// Package d1 is the calls about D1 databases: which an app has, SQL in one, and which migrations were applied.
package d1
