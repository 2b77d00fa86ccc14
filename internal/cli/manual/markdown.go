package manual

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Markdown is one document of all commands.
func (b *Book) Markdown() string {
	var w strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&w, format+"\n", args...) }
	p("# Commands\n")
	p("Every command says the same with `--help`; `man runlot` has it as pages. Data goes to standard output and talk to standard")
	p("error, so that `--json` and pipes get nothing else. This page is written by `make generate`, and a test compares it.\n")
	p("| exit code | meaning |\n|---|---|")
	for _, e := range b.Exits {
		p("| %d | %s |", e.Code, e.Meaning)
	}
	for _, program := range b.Programs {
		p("\n## %s", program.Name())
		for i, c := range tree([]*cobra.Command{program}) {
			if i > 0 {
				p("\n### %s", c.CommandPath())
			}
			p("\n```\n%s\n```\n", usage(c))
			p("%s.\n", strings.TrimSuffix(c.Short, "."))
			if c.Long != "" {
				for _, part := range blocks(c.Long) {
					if part.verbatim {
						p("```\n%s\n```\n", strings.Join(part.lines, "\n"))
					} else {
						p("%s\n", paragraph(part.lines))
					}
				}
			}
			if opts := options(c); len(opts) > 0 {
				p("| option | meaning |\n|---|---|")
				for _, o := range opts {
					p("| `%s` | %s |", strings.TrimSpace(o.names+" "+o.value), cell(o.meaning))
				}
				p("")
			}
			p("```sh\n%s\n```", unindented(c.Example))
		}
	}
	return w.String()
}

// markdown escapes what a paragraph or a cell would take for a mark.
var markdown = strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`)

func paragraph(lines []string) string { return markdown.Replace(strings.Join(lines, "\n")) }

func cell(text string) string { return markdown.Replace(text) }
