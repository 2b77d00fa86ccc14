// Package subscribe tells queues of events: what is done to scripts, and which messages became dead letters.
//
// An event is stored with the fact that it tells of, in one transaction: what happens to a script, with the events for each
// subscription; a dead letter, as a note beside the message, which becomes an event for each subscription a moment later. Events
// are sent from there, at least once, and never hold up what they tell of. The event of a dead letter that becomes one itself
// raises none, so that nothing goes round in circles.
package subscribe
