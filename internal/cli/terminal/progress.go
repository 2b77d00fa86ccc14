package terminal

// Progress shows how far something is on one line of a terminal that is written again and again; elsewhere nothing.
type Progress struct {
	out   *Output
	shown bool
}

// NewProgress returns a line that is not shown yet.
func NewProgress(out *Output) *Progress { return &Progress{out: out} }

// Show writes the line.
func (p *Progress) Show(text string) {
	if p.out.Interactive {
		p.out.Printf("\r\x1b[K%s", text)
		p.shown = true
	}
}

// End clears the line.
func (p *Progress) End() {
	if p.shown {
		p.out.Printf("\r\x1b[K")
	}
}
