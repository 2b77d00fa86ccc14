package subscribe

import (
	"maps"
	"slices"
	"strings"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// The types of source, as Cloudflare's API calls them where it has them.
const (
	// Scripts is what is done to one script or, without a name, to any.
	Scripts = "workers.script"
	// Builds is the same of one script, by the only name that the command line of wrangler lets through.
	Builds = "workersBuilds.worker"
	// Letters are the dead letters of a queue: messages whose consumer ran out of retries for them. Only this server has it.
	Letters = "queues.queue"
)

// Events of scripts.
const (
	VersionUploaded   = "version.uploaded"
	VersionDeployed   = "version.deployed"
	VersionRolledBack = "version.rolled_back"
	ScriptDeleted     = "script.deleted"
)

// DeadLettered is the event of Letters.
const DeadLettered = "message.dead_lettered"

var ofScripts = []string{VersionUploaded, VersionDeployed, VersionRolledBack, ScriptDeleted}

// events are those of each source.
var events = map[string][]string{Scripts: ofScripts, Builds: ofScripts, Letters: {DeadLettered}}

// Sources are the types of source that there are, in order.
func Sources() []string { return slices.Sorted(maps.Keys(events)) }

// EventsOf are the events of a type of source; none for a type that is not here.
func EventsOf(source string) []string { return slices.Clone(events[source]) }

// Codes of faults. The first is Cloudflare's.
const (
	CodeEvents  = "0"
	CodeInvalid = "subscription_invalid"
	CodeUnknown = "subscription_unknown"
	CodeCount   = "subscription_count"
)

func invalid(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, CodeInvalid, format, args...)
}

// maxName is the longest name of a subscription, in bytes.
const maxName = 255

// check refuses what no subscription can be.
func (s *Subscription) check() error {
	known := events[s.Source.Type]
	switch {
	case known == nil:
		return invalid("there is no event source %q here", s.Source.Type).WithHint("the sources are %s", strings.Join(Sources(), ", "))
	case len(s.Name) == 0 || len(s.Name) > maxName:
		return invalid("the name of a subscription has 1 to %d bytes", maxName)
	case len(s.Events) == 0:
		return fault.New(fault.Invalid, CodeEvents, "a subscription names the events that it is for").
			WithHint("those of %s are %s", s.Source.Type, strings.Join(known, ", "))
	case !queue.ValidName(s.Target.Queue) || !queue.ValidName(s.Target.Database):
		return invalid("a subscription names the queue that is told").WithHint("%s", queue.NameRule)
	}
	var unknown []string
	for _, event := range s.Events {
		if !slices.Contains(known, event) {
			unknown = append(unknown, event)
		}
	}
	if unknown != nil {
		return fault.New(fault.Invalid, CodeEvents, "Unrecognized event types: %s", strings.Join(unknown, ", ")).
			WithHint("those of %s are %s", s.Source.Type, strings.Join(known, ", "))
	}
	return s.Source.check(s.Target)
}

func (s *Source) check(target Place) error {
	letters := s.Type == Letters
	switch {
	case letters && s.Queue == Place{}:
		return invalid("the source %s names the queue whose dead letters are told", Letters)
	case letters && s.Script != "" || !letters && s.Queue != Place{}:
		return invalid("a source of the type %s names %s", s.Type, map[bool]string{true: "a queue, and no script", false: "a script, and no queue"}[letters])
	case s.Type == Builds && s.Script == "":
		return invalid("the source %s names its worker", Builds).WithHint("the source %s without a script is for all of them", Scripts)
	case letters && s.Queue == target:
		return invalid("a queue cannot be told of its own dead letters: each event that fails would bring another").WithHint("name another queue for the events")
	}
	return nil
}
