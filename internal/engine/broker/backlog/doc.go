// Package backlog is what a broker knows in memory of the queues that it owns: how much waits in each, the window of
// messages that an open lane delivers from, the batches under lease, and the calls that wait for one.
//
// It is told what was committed and hands out batches. It reads from the store to fill the windows, and writes nothing:
// who commits, deletes and moves messages is the broker, which also owns the goroutines that run FillLoop and WakeLoop.
//
// Order of locks: that of the Book, that of a Queue, then those of the list of reads and of the wheel. None is held over a
// call to the store.
package backlog
