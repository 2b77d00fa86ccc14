package manual

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Name is the name of a command's page.
func Name(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// Man is a command's page in the first section of the manual, in the language of man.
func (b *Book) Man(c *cobra.Command) string {
	var w strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&w, format+"\n", args...) }
	p(`.TH "%s" "1" "" "Runlot %s" "Runlot"`, strings.ToUpper(Name(c)), escape(b.Version))
	p(".SH NAME")
	p(`%s \- %s`, escape(Name(c)), escape(c.Short))
	p(".SH SYNOPSIS")
	p(`\fB%s\fR%s`, escape(c.CommandPath()), escape(strings.TrimPrefix(usage(c), c.CommandPath())))
	p(".SH DESCRIPTION")
	for i, part := range blocks(description(c)) {
		switch {
		case part.verbatim:
			p(".PP\n.nf")
			for _, line := range part.lines {
				p("%s", escape(line))
			}
			p(".fi")
			continue
		case i > 0:
			p(".PP")
		}
		for _, line := range part.lines {
			p("%s", escape(line))
		}
	}
	if list := shown(c); len(list) > 0 {
		p(".SH COMMANDS")
		for _, one := range list {
			p(".TP\n\\fB%s\\fR(1)\n%s", escape(Name(one)), escape(one.Short))
		}
	}
	if list := options(c); len(list) > 0 {
		p(".SH OPTIONS")
		for _, o := range list {
			value := ""
			if o.value != "" {
				value = ` \fI` + escape(o.value) + `\fR`
			}
			p(".TP\n\\fB%s\\fR%s\n%s", escape(o.names), value, escape(o.meaning))
		}
	}
	p(".SH EXAMPLES\n.nf")
	for line := range strings.SplitSeq(unindented(c.Example), "\n") {
		p("%s", escape(line))
	}
	p(".fi")
	p(".SH EXIT STATUS")
	for _, e := range b.Exits {
		p(".TP\n\\fB%d\\fR\n%s", e.Code, escape(e.Meaning))
	}
	if c.HasParent() {
		p(".SH SEE ALSO\n\\fB%s\\fR(1)", escape(Name(c.Parent())))
	}
	return w.String()
}

// escape writes text so that man shows it as it is: a hyphen stays one that can be copied, and no line is a command.
func escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
