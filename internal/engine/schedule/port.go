package schedule

import (
	"context"
	"errors"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// Runtime runs the scheduled handler of one version of an app.
type Runtime interface {
	// Scheduled calls the handler for the occurrence of a cron at a time and returns how it ended. When ctx ends first, the
	// handler is cancelled and Scheduled returns soon after. Errors other than ctx's: ErrLost when the process ended under
	// the run, ErrGone when it had ended before, ErrCannotRun when it lives and has no handler to call.
	Scheduled(ctx context.Context, cron string, at time.Time) (*Result, error)
}

// Result is how a scheduled handler ended.
type Result struct {
	// Outcome is queue.OK or queue.Failed.
	Outcome queue.Outcome
	// NoRetry is set when the handler asked not to be run again for this occurrence.
	NoRetry bool
	// Error is what the handler threw, when it did.
	Error *Exception
}

// Exception is an error of the user's code. Stack has the user's files and lines, one frame a line.
type Exception struct {
	Name    string
	Message string
	// Location is file:line:column of the first frame in the user's code; "" when unknown.
	Location string
	Stack    string
}

// Errors of Runtime.Scheduled. They wrap, or are wrapped with, what is known of the reason.
var (
	// ErrLost: the process ended while the handler ran.
	ErrLost = errors.New("the worker process ended during the run")
	// ErrGone: the process has ended, or is ending, and no handler was called.
	ErrGone = errors.New("the worker process is gone")
	// ErrCannotRun: the version is live and cannot run the handler.
	ErrCannotRun = errors.New("the worker cannot run")
)

// Missed is the outcome of an occurrence that was not run because it was found too late: after a downtime.
const Missed queue.Outcome = "missed"

// Record is how one run of an occurrence ended.
type Record struct {
	App  string
	Cron string
	// At is the time of the occurrence. Attempt counts the runs of it, from 1; 0 of one that was missed.
	At      time.Time
	Attempt int
	// Version is the version that ran; Node is the machine.
	Version, Node string
	Start         time.Time
	Duration      time.Duration
	// Outcome is OK, Failed, TimedOut, Lost, Errored or Missed.
	Outcome queue.Outcome
	// Missed counts earlier occurrences that were not run, up to queue.CronMissedCounted.
	Missed int
	// Error is what the handler threw; Reason is why it did not run or end, a sentence for a person.
	Error  *Exception
	Reason string
	// NoRetry says that the handler asked not to be run again; it is not kept.
	NoRetry bool
	// Retry is when the occurrence is tried again; zero when it is not.
	Retry time.Time
	// Manual marks a run that a person asked for.
	Manual bool
}

// Recorder takes the record of every run. It must not block for long.
type Recorder interface {
	Run(record *Record)
}

// Phase is what is to become of the last claimed occurrence of a cron.
type Phase string

// The phases. Their texts are stored.
const (
	// Done: nothing; it was run, or given up.
	Done Phase = "done"
	// Waiting: it is tried again at a time.
	Waiting Phase = "waiting"
	// Running: it is being run; or was, when the node has died since.
	Running Phase = "running"
)

// State is what is remembered of one cron.
type State struct {
	Cron string
	// Since is when the cron was declared: earlier occurrences are none of its.
	Since time.Time
	// At is the last occurrence that was claimed; zero when there is none yet.
	At      time.Time
	Attempt int
	Missed  int
	Phase   Phase
	// Try is when it is tried again, while Waiting.
	Try time.Time
	// Node ran it last; Began is when.
	Node  string
	Began time.Time
}

// View is everything that is remembered of an app's crons.
type View struct {
	// Now is the time of the database.
	Now time.Time
	// Fence counts claims and their ends, Beat the signs of life of the run under way.
	Fence, Beat int64
	// Running says that a run is under way, or was when its node died.
	Running bool
	Crons   []State
}

// Claim asks for a run.
type Claim struct {
	App, Node string
	// Fence and Beat are those of the View that it is based on.
	Fence, Beat int64
	// Cron is the one that is due; "" is a run that a person asked for, of which no occurrence is noted.
	Cron    string
	At      time.Time
	Attempt int
	Missed  int
	// Lost is the record of a run whose node died, which this claim ends; else nil.
	Lost *Record
}

// Finish ends a claimed run.
type Finish struct {
	App string
	// Fence is the one that the claim was given.
	Fence int64
	Cron  string
	// Try is when the occurrence is to be tried again; zero when it is done with. Attempt is the number of runs so far.
	Try     time.Time
	Attempt int
	// Record is kept with it; nil when no handler was called.
	Record *Record
}

// ErrTaken says that a claim came too late, or that a run belongs to another claim by now.
var ErrTaken = errors.New("the run belongs to another node")

// Store remembers what was run. Errors of kind fault.Unavailable are worth another try.
type Store interface {
	// Declare adds crons to those of the app; each that is new counts from now.
	Declare(ctx context.Context, app string, crons []string) error
	// Forget removes crons of the app. A run of one that is under way can still be finished.
	Forget(ctx context.Context, app string, crons []string) error
	// Look returns what is remembered of an app.
	Look(ctx context.Context, app string) (*View, error)
	// Claim takes the app, which was declared, for one run, unless fence or beat have changed, or the cron is not declared:
	// ErrTaken then. It returns the fence of the run.
	Claim(ctx context.Context, claim *Claim) (fence int64, err error)
	// Renew is a sign of life of a run. ErrTaken when it was taken over.
	Renew(ctx context.Context, app string, fence int64) error
	// Finish ends a run and keeps its record. ErrTaken, and nothing is kept, when it was taken over.
	Finish(ctx context.Context, finish *Finish) error
	// Keep keeps the record of a run that was not claimed.
	Keep(ctx context.Context, record *Record) error
}

// Kept is a record as it is kept. A later one has the higher ID.
type Kept struct {
	Record

	ID int64
}

// Filter chooses kept records of an app.
type Filter struct {
	App string
	// Cron is an expression; nil is any. Outcomes are those to show; none are all.
	Cron     *string
	Outcomes []queue.Outcome
	// Before shows lower IDs only; 0 shows all.
	Before int64
}

// Standing is what the kept records say of a cron.
type Standing struct {
	// Last is the newest record; nil when none is kept.
	Last *Kept
	// FailingSince is when the first run began that went wrong after the last that did not; zero when that one is the newest.
	// Runs by hand do not count, nor occurrences that were missed.
	FailingSince time.Time
}

// History is what a store tells of the records that it keeps. Fault: Unavailable.
type History interface {
	// Runs returns up to limit records, newest first.
	Runs(ctx context.Context, f *Filter, limit int) ([]Kept, error)
	// Standings describes crons of an app, by expression. One without records may be left out.
	Standings(ctx context.Context, app string, crons []string) (map[string]Standing, error)
}
