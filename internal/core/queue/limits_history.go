package queue

import "time"

// Bounds of the records of batches.
const (
	// RecordsKept and RecordAge are how many records of a queue are kept, and for how long: whichever is less.
	RecordsKept = 10_000
	RecordAge   = 7 * 24 * time.Hour
	// RecordEvery is how long records are gathered for one write, RecordRows and RecordBytes how many fit into one.
	RecordEvery = 500 * time.Millisecond
	RecordRows  = 1_000
	RecordBytes = 1 << 20
	// RecordLinger is how long a record waits at least for the last lines that its handler logged.
	RecordLinger = 100 * time.Millisecond
	// RecordBuffer bounds the records in memory that are not written yet, in bytes, per database.
	RecordBuffer = 16 << 20
	// RecordTime bounds one write or read, RecordStopTime the last writes at a stop.
	RecordTime     = 10 * time.Second
	RecordStopTime = 2 * time.Second
	// RecordPruneRows is the most records that one transaction deletes; RecordSweepEvery is the pause between two looks for
	// old ones.
	RecordPruneRows  = 2_000
	RecordSweepEvery = time.Minute
	// RecordText and RecordStack bound the texts of a record, in bytes, and RecordWarnings the number of its warnings.
	RecordText     = 1 << 10
	RecordStack    = 4 << 10
	RecordWarnings = 10
	// RecordLines and RecordLogBytes bound what is kept of what one handler call logged; RecordLogBuffer bounds the lines in
	// memory that wait for their record, in bytes, per database.
	RecordLines     = 50
	RecordLogBytes  = 8 << 10
	RecordLogBuffer = 4 << 20
	// RecordPage is the most records of one page of a list.
	RecordPage = 500
	// RecordSettledRows is the most records that one statement reads for the list of settled messages.
	RecordSettledRows = 100
	// RecordFollow is how many records wait for one subscriber; past it the oldest go, and are counted.
	RecordFollow = 1_000
	// RecordConnections bounds the connections that write and read records, per database.
	RecordConnections = 2
)

// Bounds of the series that charts and metrics are read from.
const (
	// SeriesStep is the span of a point in memory, SeriesMemory how long points stay there.
	SeriesStep   = 10 * time.Second
	SeriesMemory = 15 * time.Minute
	// SeriesAge is how long the minutes of a queue are kept in its database.
	SeriesAge = 7 * 24 * time.Hour
	// SeriesQueues is the most queues of a database that have a series and numbers of their own in the metrics.
	SeriesQueues = 1_000
	// SeriesRows is the most minutes of one write, SeriesPending the most that wait for their database.
	SeriesRows    = 1_000
	SeriesPending = 20_000
	// SeriesPoints is the most points of one answer, SeriesAutoPoints the same where no step is asked for.
	SeriesPoints     = 720
	SeriesAutoPoints = 240
	// SeriesPruneEvery is the pause between two looks for days that are too old, SeriesPruneWait the longest wait for who reads
	// them.
	SeriesPruneEvery = time.Hour
	SeriesPruneWait  = time.Second
	// SeriesConnections bounds the connections that write and read series, per database.
	SeriesConnections = 2
	// SeriesDelayedEvery is how often the delayed messages of a queue are counted in its database, where the memory does not
	// know of all, and SeriesDelayedQueues the most queues of a database for which it is done at a time.
	SeriesDelayedEvery  = time.Minute
	SeriesDelayedQueues = 20
	// MetricsApps is the most apps with numbers of their own in the metrics, MetricsReaders the most answers with metrics at a
	// time, and MetricsTime the longest that one may take.
	MetricsApps    = 1_000
	MetricsReaders = 4
	MetricsTime    = 10 * time.Second
)
