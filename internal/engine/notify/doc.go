// Package notify tells the people who run a celld what they have to know: rules over facts make notices, an outbox keeps
// each until it was sent, and channels send them.
//
// Rules are the decision, pure and in memory. A Notifier is the effect: it takes facts without ever waiting, writes the
// notices that follow from them to the outbox, and sends what lies there. The outbox lets one notice of a rule, a subject and a
// day through, on all nodes together. A node that dies between a sending and its note in the outbox has it sent again.
package notify
