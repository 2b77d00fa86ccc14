// Package reason reads what workerd says of a worker: the stacks of its exceptions, why it did not start, why it ended.
package reason

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/runlot/runlot/internal/adapter/workerd/render"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// MapStack rewrites the frames of a stack or error text from the bundle to the user's sources, and names file:line:column of
// the first frame in the user's code; location is "" when there is none.
type MapStack func(stack string) (mapped, location string)

// bundleURL is where workerd says that the modules are.
const bundleURL = "file:///bundle/"

// frame is a place in a stack or error text: a file of the bundle with line and column.
var frame = regexp.MustCompile(`([^\s()"]+):(\d+):(\d+)`)

// ourFrame is a line of a stack that stands in a module of the product, and what follows it: an error may be a part of a
// printed value, which goes on there.
var ourFrame = regexp.MustCompile(`^\s*at .*(?:` + regexp.QuoteMeta(render.EntryModule) + `|` + regexp.QuoteMeta(render.ProbeModule) + `|` + render.InternalModules + `)[^\s()]*\)?((?s:.*))$`)

// Map rewrites a stack to the user's files, without the frames of the product's modules; location is that of the first
// frame. Without m, which may be nil, the places are those in the bundle.
func Map(m MapStack, stack string) (mapped, location string) {
	var lines []string
	for line := range strings.Lines(stack) {
		ours := ourFrame.FindStringSubmatch(line)
		switch {
		case ours == nil:
			lines = append(lines, line)
		case len(lines) > 0:
			lines[len(lines)-1] = strings.TrimRight(lines[len(lines)-1], "\n") + ours[1]
		}
	}
	stack = strings.TrimRight(strings.Join(lines, ""), "\n")
	if m != nil {
		mapped, location = m(stack)
		return strings.ReplaceAll(mapped, bundleURL, ""), location
	}
	stack = strings.ReplaceAll(stack, bundleURL, "")
	if at := frame.FindStringSubmatch(stack); at != nil {
		location = at[1] + ":" + at[2] + ":" + at[3]
	}
	return stack, location
}

// scriptPlace is a place in a service-worker script, under the name that workerd gives it.
var scriptPlace = regexp.MustCompile(`\bworker:(\d+):(\d+)`)

// Script adapts m to a service-worker script that has a prefix of so many characters on its first line: workerd
// names the script "worker", and its map knows it by its own name.
func Script(m MapStack, name string, prefix int) MapStack {
	return func(stack string) (mapped, location string) {
		return Map(m, scriptPlace.ReplaceAllStringFunc(stack, func(place string) string {
			parts := scriptPlace.FindStringSubmatch(place)
			column, err := strconv.Atoi(parts[2])
			if err != nil {
				return place
			}
			if parts[1] == "1" {
				column = max(1, column-prefix)
			}
			return name + ":" + parts[1] + ":" + strconv.Itoa(column)
		}))
	}
}

// startRule turns what workerd says about a worker that does not start into a fault.
type startRule struct {
	pattern    *regexp.Regexp
	code, hint string
}

var startRules = []startRule{
	{regexp.MustCompile(`compatibility flag`), "worker_flag", "correct the compatibility flags in the app's configuration"},
	{regexp.MustCompile(`compatibility date`), "worker_date", "correct the compatibility date in the app's configuration"},
	{regexp.MustCompile(`Uncaught SyntaxError`), "worker_syntax", ""},
	{regexp.MustCompile(`(Module not found|No such module)`), "worker_module", "import only modules of the bundle and of the runtime; a node: module may need the compatibility flag nodejs_compat"},
	{regexp.MustCompile(`(no such named entrypoint|named entrypoint)`), "worker_entrypoint", "export it from the main module"},
	{regexp.MustCompile(`has no default export`), "worker_handler", "export default { async queue(batch, env, ctx) {} }"},
	{regexp.MustCompile(`Uncaught`), "worker_threw", "the error is thrown while the module is loaded, outside of any handler"},
}

// Start explains a worker that ended before it listened by what it wrote to stderr.
func Start(stderr string, state *os.ProcessState, m MapStack) *fault.Error {
	text := startText(stderr)
	if text == "" {
		return fault.New(fault.Environment, "worker_start", "the worker process did not start: %s", Exit(stderr, state, queue.HeapMiB))
	}
	if strings.Contains(text, "top-level await") {
		// workerd names the module that it was asked for, which may be one of ours.
		return fault.New(fault.Invalid, "worker_await", "a module awaits at its top level what does not resolve at once").
			WithHint("move it into a handler")
	}
	mapped, location := Map(m, text)
	first, rest, _ := strings.Cut(mapped, "\n")
	if first = strings.TrimSpace(strings.TrimPrefix(first, "Uncaught")); first == "" {
		first = "an error without a message" // as of: throw ""
	}
	message := first
	if location != "" {
		message = location + ": " + first
	}
	if bare, more, _ := strings.Cut(rest, "\n"); location != "" && strings.TrimSpace(bare) == "at "+location {
		rest = more // the place stands before the message, and the frame says nothing else
	}
	if rest = strings.TrimRight(rest, "\n"); rest != "" {
		message += "\n" + rest
	}
	for _, rule := range startRules {
		if rule.pattern.MatchString(text) {
			f := fault.New(fault.Invalid, rule.code, "%s", message)
			if rule.hint != "" {
				f = f.WithHint("%s", rule.hint)
			}
			return f
		}
	}
	return fault.New(fault.Environment, "worker_start", "the worker process did not start: %s", message)
}

// startFrame is a frame as workerd prints it at start, "at place in function"; everywhere else it is "at function (place)".
var startFrame = regexp.MustCompile(`^    at (\S+) in (.+)$`)

// startPrefix is what workerd puts before a line about the user's worker.
const startPrefix = "service worker: "

// Line is one line of the output of a start, as the worker meant it; "" when it is empty.
func Line(text string) string {
	return strings.TrimPrefix(strings.TrimRight(text, "\r\n"), startPrefix)
}

// startText finds the reason in the output: from the first error line of the user's worker on, with its frames.
func startText(stderr string) string {
	var lines []string
	for line := range strings.Lines(strings.TrimSpace(stderr)) {
		text := strings.TrimRight(line, "\n")
		if after, ok := strings.CutPrefix(text, startPrefix); ok {
			if len(lines) > 0 && !strings.HasPrefix(after, "Uncaught") {
				continue // one reason is enough; a list of them says the same of each rule
			}
			lines = append(lines[:0], after)
			continue
		}
		if len(lines) > 0 && strings.HasPrefix(text, "  ") {
			lines = append(lines, startFrame.ReplaceAllString("  "+text, "    at $2 ($1)"))
		}
	}
	if len(lines) == 0 {
		return strings.TrimSpace(stderr)
	}
	return strings.Join(lines, "\n")
}

// Exit says in a few words why a process ended by itself.
func Exit(stderr string, state *os.ProcessState, heapMiB int) string {
	if outOfMemory.MatchString(stderr) {
		return "it ran out of memory; the limit is " + strconv.Itoa(heapMiB) + " MiB of JavaScript heap, and " + strconv.Itoa(queue.ProcessMiB) + " MiB of memory in all"
	}
	if strings.Contains(stderr, "Too many open files") {
		return "it had too many connections open at a time (ulimit -n)"
	}
	status, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case ok && status.Signaled():
		return "it was ended by the signal " + status.Signal().String()
	case state.Success():
		return "it exited"
	default:
		return "it exited with status " + strconv.Itoa(state.ExitCode())
	}
}

var outOfMemory = regexp.MustCompile(`V8 fatal error;.*(heap limit|out of memory)`)
