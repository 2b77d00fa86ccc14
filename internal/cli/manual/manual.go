// Package manual writes the manual of the programs from their commands: a page of man for each command, and one document
// of all of them in Markdown.
package manual

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit is an exit code and what it means.
type Exit struct {
	Code    int
	Meaning string
}

// Book is the programs, and what all their commands have in common.
type Book struct {
	Programs []*cobra.Command
	Exits    []Exit
	Version  string
}

// Commands are all commands that a person may be told of, each before those below it.
func (b *Book) Commands() []*cobra.Command { return tree(b.Programs) }

// tree are commands, each followed by those below it.
func tree(commands []*cobra.Command) (all []*cobra.Command) {
	for _, c := range commands {
		all = append(append(all, c), tree(shown(c))...)
	}
	return all
}

// shown are the commands directly below one. The one that cobra adds, help, repeats what --help does.
func shown(c *cobra.Command) []*cobra.Command {
	var found []*cobra.Command
	for _, one := range c.Commands() {
		if one.IsAvailableCommand() && one.Name() != "help" {
			found = append(found, one)
		}
	}
	return found
}

// option is a flag in words.
type option struct {
	// names are as they are typed, value the word for what the flag takes, or "".
	names, value, meaning string
}

// options are the flags of a command, without that for help, which every command has.
func options(c *cobra.Command) []option {
	var list []option
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		o := option{names: "--" + f.Name}
		if f.Shorthand != "" {
			o.names = "-" + f.Shorthand + ", " + o.names
		}
		var usage string
		o.value, usage = pflag.UnquoteUsage(f)
		o.meaning = strings.Join(strings.Fields(usage), " ")
		switch f.DefValue {
		case "", "0", "0s", "false", "[]":
		default:
			text := f.DefValue
			if f.Value.Type() == "string" {
				text = strconv.Quote(text)
			}
			o.meaning += " (default " + text + ")"
		}
		list = append(list, o)
	})
	return list
}

// block is a piece of a description: a paragraph of flowing text, or lines that stay as they are.
type block struct {
	lines    []string
	verbatim bool
}

// blocks takes a description apart. Lines that are indented stay as they are.
func blocks(text string) []block {
	var list []block
	for part := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		lines := strings.Split(part, "\n")
		list = append(list, block{lines, strings.HasPrefix(part, " ")})
	}
	return list
}

// description is what there is to say of a command.
func description(c *cobra.Command) string {
	if c.Long != "" {
		return c.Long
	}
	return c.Short + "."
}

// usage is how a command is called.
func usage(c *cobra.Command) string {
	if len(shown(c)) > 0 && (c.HasParent() || !c.Runnable()) {
		return c.CommandPath() + " [COMMAND]"
	}
	return c.UseLine()
}

// unindented is an example without its margin.
func unindented(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "  ")
	}
	return strings.Join(lines, "\n")
}
