package notify

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/runlot/runlot/internal/core/queue"
)

// Rule names what a notice is about. The texts are settings, are stored, and are on the wire.
type Rule string

// The rules.
const (
	// QueueFailed: queue.NotifyFailures batches of a queue in a row ended as failed or error. A batch that went well ends the
	// row; one that was lost or timed out neither counts nor ends it.
	QueueFailed Rule = "queue_failed"
	// OperationsCap: a database has used queue.OperationsWarning percent of its operations of the day, or all of them.
	OperationsCap Rule = "queue_ops_cap"
	// CronFailed: as many runs of one occurrence of a cron did not end well, or one that failed is not tried again.
	CronFailed Rule = "cron_failed"
	// DeadLetters: a message became a dead letter.
	DeadLetters Rule = "dead_letters"
	// QueueOld: the oldest message of a queue is older than a threshold.
	QueueOld Rule = "queue_old"
	// Recovered: what QueueFailed or CronFailed was told of went well again.
	Recovered Rule = "recovered"
	// Test is no rule: a person asked for it.
	Test Rule = "test"
)

// Rules that are on unless others are chosen, and all that can be.
var (
	DefaultRules = []Rule{QueueFailed, OperationsCap, CronFailed}
	AllRules     = []Rule{QueueFailed, OperationsCap, CronFailed, DeadLetters, Recovered}
)

// Exception is an error of the user's code.
type Exception struct {
	Name    string `json:"name"`
	Message string `json:"message"`
	// Location is file:line:column in the user's code; "" when unknown.
	Location string `json:"location,omitempty"`
}

// Notice is what a rule has to tell. Which fields are set follows from the rule; their names in JSON are those of the outbox
// and of webhooks.
type Notice struct {
	Rule Rule      `json:"rule"`
	At   time.Time `json:"at"`
	// Node is the machine on which it was noticed.
	Node string `json:"node,omitempty"`

	Database string `json:"database,omitempty"`
	Queue    string `json:"queue,omitempty"`
	// DeadLetterQueue is where the queue's dead letters go, in the same database.
	DeadLetterQueue string `json:"deadLetterQueue,omitempty"`
	App             string `json:"app,omitempty"`
	Cron            string `json:"cron,omitempty"`
	// Version is an id; VersionNumber counts the app's versions, 0 when it is not known.
	Version       string `json:"version,omitempty"`
	VersionNumber int    `json:"versionNumber,omitempty"`

	// Since is when the first of a row of failures began, Count how many there were; of a cron, Since is the occurrence that
	// failed. Of dead letters, Count is their number in the batch.
	Since   time.Time     `json:"since,omitzero"`
	Count   int           `json:"count,omitempty"`
	Outcome queue.Outcome `json:"outcome,omitempty"`
	// Error is what the handler threw last; Reason is why it did not run or end.
	Error  *Exception `json:"error,omitempty"`
	Reason string     `json:"reason,omitempty"`
	// Occurrence is the time that a run was for, Retry when it is tried again; zero when it is not.
	Occurrence time.Time `json:"occurrence,omitzero"`
	Retry      time.Time `json:"retry,omitzero"`

	// Percent of Cap operations are Used; the count begins anew at Resets.
	Percent int       `json:"percent,omitempty"`
	Used    int64     `json:"used,omitempty"`
	Cap     int64     `json:"cap,omitempty"`
	Resets  time.Time `json:"resets,omitzero"`

	// Oldest is when the oldest message was sent. Threshold is in seconds. PausedSince is zero when the queue is not paused.
	Oldest      time.Time `json:"oldest,omitzero"`
	Threshold   int64     `json:"thresholdSeconds,omitempty"`
	PausedSince time.Time `json:"pausedSince,omitzero"`
}

// Subject is what a notice is about. There is one of a rule and a subject a day.
func (n *Notice) Subject() string {
	switch {
	case n.Rule == OperationsCap && n.Percent < full:
		return "database " + n.Database + " near its cap"
	case n.Rule == OperationsCap:
		return "database " + n.Database
	case n.Cron != "":
		return "cron " + n.App + " " + n.Cron
	case n.Queue != "":
		return "queue " + n.Database + "/" + n.Queue
	default:
		return "celld"
	}
}

// full is a cap in percent.
const full = 100

// Day is the day of a notice in UTC.
func (n *Notice) Day() time.Time { return n.At.UTC().Truncate(24 * time.Hour) }

// trim bounds the texts that come from the user's code, and leaves out what no database takes.
func (n *Notice) trim() {
	n.Reason = clean(n.Reason)
	if n.Error != nil {
		e := Exception{Name: clean(n.Error.Name), Message: clean(n.Error.Message), Location: clean(n.Error.Location)}
		n.Error = &e
	}
}

func clean(text string) string {
	if len(text) > queue.NotifyText {
		cut := queue.NotifyText
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "…"
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
