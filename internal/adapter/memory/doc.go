// Package memory is a store.Store that keeps its messages in memory and nowhere else. It keeps the contract of the store
// over PostgreSQL, one owner included, and adds what tests need: calls that take time, fail or hang, and crashes that
// leave a write under way carried out or not. It also serves as the peer that a benchmark compares PostgreSQL with.
package memory
