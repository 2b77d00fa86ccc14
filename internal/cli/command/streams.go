package command

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/runlot/runlot/internal/cli/terminal"
)

// Stdout and Stderr give a command's streams as files.
func Stdout(c *cobra.Command) *os.File { return file(c.OutOrStdout(), os.Stdout) }

// Stderr is Stdout for what is said beside the data.
func Stderr(c *cobra.Command) *os.File { return file(c.ErrOrStderr(), os.Stderr) }

// Stdin is what a command reads.
func Stdin(c *cobra.Command) *os.File { return file(c.InOrStdin(), os.Stdin) }

func file(stream any, otherwise *os.File) *os.File {
	if f, ok := stream.(*os.File); ok {
		return f
	}
	return otherwise
}

// JSON writes a value for a program.
func JSON(c *cobra.Command, value any) error {
	encoder := json.NewEncoder(Stdout(c))
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// JSONLine writes a value for a program, on one line.
func JSONLine(c *cobra.Command, value any) error {
	encoder := json.NewEncoder(Stdout(c))
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// Confirm asks for a yes before something that cannot be undone. Outside a terminal nobody can be asked: there it takes
// --yes. It returns a usage error when the answer is no.
func Confirm(c *cobra.Command, yes bool, question string) error {
	if yes {
		return nil
	}
	in := Stdin(c)
	if !term.IsTerminal(int(in.Fd())) {
		return Usage("%s asks before it does this, and there is nobody to ask; --yes does it", c.CommandPath())
	}
	talk := terminal.New(Stderr(c))
	talk.Printf("%s [y/N] ", question)
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil || !strings.EqualFold(strings.TrimSpace(answer), "y") && !strings.EqualFold(strings.TrimSpace(answer), "yes") {
		return Usage("nothing was done")
	}
	return nil
}

// IsTerminal reports whether a person is at the other end.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// ReadHidden asks for a line that is not shown.
func ReadHidden(c *cobra.Command, prompt string) (string, error) {
	talk := terminal.New(Stderr(c))
	talk.Printf("%s", prompt)
	text, err := term.ReadPassword(int(Stdin(c).Fd()))
	talk.Printf("\n")
	return string(text), err
}
