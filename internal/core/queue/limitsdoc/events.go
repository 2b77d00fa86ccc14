package main

import "github.com/runlot/runlot/internal/core/queue"

const eventsUnit = "events"

// subscriptions is the table of event subscriptions.
var subscriptions = section{
	title: "Event subscriptions",
	intro: "Events wait in PostgreSQL until their queue has them.",
	limits: []limit{
		{"Subscriptions", queue.Subscriptions, "subscriptions", "each fact, which looks for those that ask for it: subscriptions of one celld"},
		{"EventGroup", queue.EventGroup, eventsUnit, "the queue: events of a subscription that one call sends"},
		{"EventLetters", queue.EventLetters, "dead letters", "the size of a message: dead letters that one event tells of"},
		{"EventReasonBytes", queue.EventReasonBytes, bytesUnit, "the same: the reason of each"},
		{"EventRetryFirst", queue.EventRetryFirst, "", "a queue that does not take events: the first wait before another try"},
		{"EventRetryMax", queue.EventRetryMax, "", "the same: the longest wait, which doubles until then"},
		{"EventAge", queue.EventAge, "", "the disk: how long an event waits for a queue that does not take it"},
		{"DeathLook", queue.DeathLook, "", "the database: how often dead letters are looked for that only pulled messages leave"},
		{"EventLook", queue.EventLook, "", "the disk: how often events that are too old are looked for"},
		{"DeathConnections", queue.DeathConnections, connectionsUnit, "the database: connections for notes of dead letters, per database that has such a subscription"},
		{"DeathConnectionIdle", queue.DeathConnectionIdle, "", "the same: how long an unused one stays"},
	},
}
