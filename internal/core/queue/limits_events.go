package queue

import "time"

// Bounds of event subscriptions.
const (
	// Subscriptions is the most of one celld.
	Subscriptions = 100
	// EventGroup is the most events of a subscription that one call sends to its queue.
	EventGroup = 25
	// EventLetters is the most dead letters that one event tells of, EventReasonBytes the most bytes of the reason of each.
	EventLetters     = 100
	EventReasonBytes = 400
	// EventRetryFirst and EventRetryMax are the waits between two tries, doubling.
	EventRetryFirst = time.Second
	EventRetryMax   = time.Minute
	// EventAge is how long an event waits for a queue that does not take it.
	EventAge = DefaultRetention
	// DeathLook is how often dead letters are looked for that nothing has told of: those of pulled messages. EventLook is how
	// often old events are.
	DeathLook = 5 * time.Second
	EventLook = time.Hour
	// DeathConnections bounds the connections to one database for notes of dead letters, which close after a minute without use.
	DeathConnections    = 1
	DeathConnectionIdle = time.Minute
)
