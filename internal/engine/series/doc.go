// Package series keeps how the queues of one database did over time: numbers that the engines add to while they work, a
// point of each queue every ten seconds in memory, and a row a minute in the database of the queues. Charts, sparklines
// and metrics are read from it. Nothing waits for it: what it cannot keep is lost and counted as nothing.
package series
