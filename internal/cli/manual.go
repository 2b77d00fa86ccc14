package cli

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/manual"
	"github.com/runlot/runlot/internal/core/fault"
)

//go:generate go run ../../cmd/runlot man --markdown ../../docs/COMMANDS.md

// exits are the exit codes as the manual tells them.
var exits = []manual.Exit{
	{Code: ExitOK, Meaning: "what was asked for is done"},
	{Code: ExitFailed, Meaning: "it is not done; standard error says why, and mostly what to do"},
	{Code: ExitUsage, Meaning: "the command line makes no sense, or a question was answered with no; nothing was done"},
	{Code: ExitInterrupted, Meaning: "a second interrupt cut a clean stop short; nothing stored is lost"},
}

// book is the manual of both programs.
func book(version string) *manual.Book {
	return &manual.Book{Programs: []*cobra.Command{runlotCommand(version), celldProgram(version)}, Exits: exits, Version: version}
}

// manCommand writes the manual. It is for who packages the programs, and not shown.
func manCommand() *cobra.Command {
	var markdown string
	c := &cobra.Command{
		Use:     "man [DIR]",
		Short:   "Write the manual of runlot and celld",
		Long:    "man writes a page for each command to DIR, for man(1).",
		Example: "  runlot man /usr/local/share/man/man1",
		Args:    command.Args(0, 1, "folder"),
		Hidden:  true,
		RunE: func(c *cobra.Command, dirs []string) error {
			b := book(c.Root().Version)
			if markdown != "" {
				return write(markdown, b.Markdown())
			}
			if len(dirs) == 0 {
				return command.Usage("%s needs the folder to write to", c.CommandPath())
			}
			if err := os.MkdirAll(dirs[0], 0o755); err != nil { //nolint:gosec // a manual is for everybody
				return unwritten(dirs[0], err)
			}
			for _, one := range b.Commands() {
				if err := write(filepath.Join(dirs[0], manual.Name(one)+".1"), b.Man(one)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().StringVar(&markdown, "markdown", "", "write one page of all in Markdown to this `FILE`")
	return c
}

func write(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // a manual is for everybody
		return unwritten(path, err)
	}
	return nil
}

func unwritten(path string, err error) error {
	return fault.New(fault.Environment, "cannot_write", "%s cannot be written", path).WithHint("name a folder that you may write to").WithCause(err)
}
