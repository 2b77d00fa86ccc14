// Package ledger keeps a record of every batch: what was delivered, how it ended and why. Records are taken without ever
// waiting, gathered in a bounded buffer, written by one goroutine to a store, and pruned by age and number. Whoever wants
// to follow what happens subscribes; whoever wants to look back reads pages from the store.
//
// A record is worth less than a message: what a crash finds in the buffer is lost, and what does not fit into it is
// counted in a record of its own, the gap.
package ledger
