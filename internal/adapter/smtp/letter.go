package smtp

import (
	_ "embed"
	"html/template"
	"strings"

	"github.com/runlot/runlot/internal/engine/notify"
)

//go:embed letter.html
var letterSource string

var letter = template.Must(template.New("letter").Parse(letterSource))

// page is what the template shows.
type page struct {
	notify.Message
	Link string
}

// html is a message as a page of its own: nothing in it is loaded from elsewhere.
func html(m *notify.Message, operator string) (string, error) {
	var b strings.Builder
	err := letter.Execute(&b, page{*m, operator + m.Path})
	return b.String(), err
}
