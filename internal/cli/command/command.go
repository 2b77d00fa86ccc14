// Package command is what all commands share: how a command line is judged, and where their output goes.
package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/runlot/runlot/internal/config/source"
)

// UsageError is a command line that makes no sense.
type UsageError struct{ error }

// Usage is a UsageError with a text of its own.
func Usage(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// Args checks the number of positional arguments. what names one of them, for a person.
func Args(least, most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, given []string) error {
		switch {
		case len(given) < least:
			if !strings.HasPrefix(what, "a ") && !strings.HasPrefix(what, "the ") {
				what = "the " + what
			}
			return Usage("%s needs %s", c.CommandPath(), what)
		case len(given) > most && most == 0:
			return Usage("%s takes no argument, not %s", c.CommandPath(), Quoted(given[0]))
		case len(given) > most && most > 1:
			return Usage("%s takes at most %d arguments, not %d", c.CommandPath(), most, len(given))
		case len(given) > most:
			return Usage("%s takes one %s, not %d", c.CommandPath(), what, len(given))
		}
		return nil
	}
}

// CompleteFolders has a shell complete the command's arguments, and the named flags, with folders, and --config with
// configuration files.
func CompleteFolders(c *cobra.Command, flags ...string) {
	c.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	for _, name := range flags {
		Must(c.MarkFlagDirname(name))
	}
	Must(c.MarkFlagFilename("config", "json", "jsonc", "toml"))
}

// Must is for marks of flags that the command defines.
func Must(err error) {
	if err != nil {
		panic("command: a flag is marked that its command does not define: " + err.Error())
	}
}

// FlagError says what is wrong with a flag in words for a person, and which flag was meant.
func FlagError(c *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		name, kind := invalid.GetFlag().Name, "value"
		if invalid.GetFlag().Value.Type() == "int" {
			kind = "number"
		}
		return Usage("--%s takes a %s, not %s", name, kind, Quoted(invalid.GetValue()))
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return UsageError{err}
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := source.Suggest(unknown.GetSpecifiedName(), names); near != "" && len(unknown.GetSpecifiedName()) > 1 {
		return Usage("%w; did you mean --%s?", err, near)
	}
	return UsageError{err}
}

// HelpOrUnknown is what a program does when it is given no command that it knows.
func HelpOrUnknown(c *cobra.Command, given []string) error {
	if len(given) == 0 {
		return c.Help()
	}
	text := fmt.Sprintf("unknown command %s for %q", Quoted(given[0]), c.CommandPath())
	var names []string
	for _, one := range c.Commands() {
		if one.IsAvailableCommand() {
			names = append(names, one.Name())
		}
	}
	if near := source.Suggest(given[0], names); near != "" {
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	return Usage("%s", text)
}
