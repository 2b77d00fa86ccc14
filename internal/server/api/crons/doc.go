// Package crons is the calls about scheduled runs: which come, which were, and one by hand.
package crons
