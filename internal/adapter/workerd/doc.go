// Package workerd runs the JavaScript of apps on workerd, one process for each running version of an app.
//
// A process holds three or four workers. The user's worker has the app's modules and bindings. The router takes deliveries from
// this package over a private unix socket and calls the user's queue and scheduled handlers, so that those see native
// events. The tail gets the logs and exceptions of each invocation and posts them back when there are any. While an
// app is developed, the front stands before the user's worker: it tells of requests and answers with errors. The probe
// lives in a throw-away process of its own and tells which handlers a bundle exports.
//
// Whose request it is, the host knows by headers that workerd injects and that user code cannot set: each queue binding
// is a service of its own on the one private socket. Go owns the public listener and hands its descriptor down, so that
// a new version takes over without a refused connection.
//
// An exception is found by the delivery that it belongs to: the user's queue handler is called through a wrapper that
// writes the first message's id and attempt into the invocation's trace. This costs 12–19 % of the rate of deliveries
// (measured; streaming tails, which need no wrapper, cost 15–40 %). Under the flag queue_consumer_no_wait_for_wait_until
// the trace lacks the exception and ends long after the result, so that there the wrapper tells it and the tail streams.
//
// What workerd does not say by itself: in the user's isolate, before the user's code, a module makes the console print
// values as a person reads them and reports rejections that nothing awaits. Why a connection failed stands on stderr only,
// under a reference that JavaScript sees; the reason takes the reference's place in exceptions and logs.
//
// workerd has no limits of its own. Time: the caller's context; closing the request cancels the handler. Loops: a
// watchdog that pings the router and kills the process. Memory: V8's heap limit. A process never outlives this one: on
// Linux it dies with the thread that started it.
package workerd
