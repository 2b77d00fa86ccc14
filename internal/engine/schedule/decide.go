package schedule

import (
	"time"

	"github.com/runlot/runlot/internal/core/cron"
	"github.com/runlot/runlot/internal/core/queue"
)

// decision is what is to be done about an app's crons: one of its fields, or nothing before wake.
type decision struct {
	// run is the occurrence to claim.
	run *occurrence
	// anew are crons to be declared again: they are not known, or what is known of them lies in the future.
	anew []string
	// wake is when there may be something to do, by the clock of the database; zero when only a change can bring it.
	wake time.Time
}

// occurrence is a time of a cron that is due.
type occurrence struct {
	cron    *cron.Schedule
	at      time.Time
	attempt int
	missed  int
	// late says that it is too late to run it; again that it was claimed before.
	late, again bool
	// lost is the state of a run whose node died, of this occurrence or of one before it.
	lost *State
	// since is when it became due.
	since time.Time
}

// decide chooses what to do at view.Now. A run that view shows as under way is one that is lost.
func decide(view *View, crons []*cron.Schedule) decision {
	known := make(map[string]*State, len(view.Crons))
	for i := range view.Crons {
		known[view.Crons[i].Cron] = &view.Crons[i]
	}
	var d decision
	for _, c := range crons {
		state := known[c.String()]
		if state == nil || state.base().Sub(view.Now) > queue.CronClockBack {
			d.anew = append(d.anew, c.String())
			continue
		}
		found, wake := state.due(c, view.Now)
		if found != nil && (d.run == nil || found.before(d.run)) {
			d.run = found
		}
		if d.wake.IsZero() || wake.Before(d.wake) {
			d.wake = wake
		}
	}
	return d
}

// base is the time after which occurrences are new.
func (s *State) base() time.Time {
	if s.At.IsZero() {
		return s.Since
	}
	return s.At
}

// before orders what is due: the run that was lost first, so that its end is noted, and then the longest due.
func (o *occurrence) before(other *occurrence) bool {
	if (o.lost != nil) != (other.lost != nil) {
		return o.lost != nil
	}
	return o.since.Before(other.since)
}

// due returns the occurrence that is due, or nil and when one will be. Only the latest of several is due.
func (s *State) due(c *cron.Schedule, now time.Time) (*occurrence, time.Time) {
	base := s.base()
	wake := c.Next(later(base, now))
	var lost *State
	if s.Phase == Running {
		lost = s
	}
	latest := c.Prev(now)
	if latest.After(base) {
		o := &occurrence{
			cron: c, at: latest, attempt: 1, missed: c.Count(base, latest, queue.CronMissedCounted),
			late: now.Sub(latest) > queue.CronLate, lost: lost, since: latest,
		}
		if s.Phase == Waiting && s.Attempt == 0 {
			o.missed += s.Missed + 1 // it was claimed, and no process was there to run it
		}
		return o, wake
	}
	again := &occurrence{
		cron: c, at: s.At, attempt: s.Attempt + 1, missed: s.Missed, late: now.Sub(s.At) > queue.CronLate, again: true, lost: lost, since: s.At,
	}
	switch {
	case s.Phase == Running:
		return again, wake
	// A wait that is longer than any comes of a clock that was put back.
	case s.Phase == Waiting && (!s.Try.After(now) || s.Try.Sub(now) > queue.CronRetryMax):
		again.since = s.Try
		return again, wake
	case s.Phase == Waiting && s.Try.Before(wake):
		return nil, s.Try
	default:
		return nil, wake
	}
}

// retryAt returns when an occurrence is tried again after its run number attempt ended badly at now: with back-off, before
// the next occurrence and not too late; zero when there is no such time.
func retryAt(c *cron.Schedule, at time.Time, attempt int, now time.Time) time.Time {
	try := now.Add(queue.Backoff{First: queue.CronRetryFirst, Max: queue.CronRetryMax}.Delay(attempt))
	if !try.Before(c.Next(at)) || try.Sub(at) > queue.CronLate {
		return time.Time{}
	}
	return try
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
