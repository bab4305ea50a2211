package isogloss

import (
	"fmt"
	"html"
	"strings"
	"unicode/utf8"
)

// drawing is an SVG picture of boxes, texts and arrows. Its size follows from what is drawn.
type drawing struct {
	arrows, body  strings.Builder // arrows are below all else
	width, height int
}

// lineHeight is the distance between two lines of a box.
const lineHeight = 18

// box draws a rectangle with a bold title and lines below it, and returns its lower edge.
func (d *drawing) box(x, y, width int, fill, title string, lines ...string) int {
	height := 16 + lineHeight*(1+len(lines))
	fmt.Fprintf(&d.body, `<rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="%s" stroke="#57606a"/>`+"\n", x, y, width, height, fill)
	d.text(x+12, y+22, "bold", title)
	for i, line := range lines {
		d.text(x+12, y+22+lineHeight*(i+1), "", line)
	}
	d.reach(x+width, y+height)
	return y + height
}

// text draws one line of text. kind is a class of the style sheet, or empty.
func (d *drawing) text(x, y int, kind, text string) {
	fmt.Fprintf(&d.body, `<text x="%d" y="%d" class="%s">%s</text>`+"\n", x, y, kind, html.EscapeString(text))
	d.reach(x+7*utf8.RuneCountInString(text), y)
}

// arrow draws a curve from one point to another, both with vertical ends.
func (d *drawing) arrow(x1, y1, x2, y2 int) {
	middle := (y1 + y2) / 2
	fmt.Fprintf(&d.arrows, `<path d="M%d %d C%d %d %d %d %d %d" marker-end="url(#tip)"/>`+"\n", x1, y1, x1, middle, x2, middle, x2, y2)
	d.reach(max(x1, x2), max(y1, y2))
}

// across draws a curve from one point to another, both with horizontal ends.
func (d *drawing) across(x1, y1, x2, y2 int) {
	middle := (x1 + x2) / 2
	fmt.Fprintf(&d.arrows, `<path d="M%d %d C%d %d %d %d %d %d" marker-end="url(#tip)"/>`+"\n", x1, y1, middle, y1, middle, y2, x2, y2)
	d.reach(x2, max(y1, y2))
}

func (d *drawing) reach(x, y int) {
	d.width, d.height = max(d.width, x+20), max(d.height, y+20)
}

// svg returns the picture. It has a white background, because pages are also shown on a dark one.
func (d *drawing) svg(title string) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" role="img">
<title>%[3]s</title>
<style>text{font:13px system-ui,sans-serif;fill:#1f2328}.bold{font-weight:600}.small{font-size:12px;fill:#57606a}path{fill:none;stroke:#8c959f}</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" style="fill:#8c959f;stroke:none"/></marker></defs>
<rect width="%[1]d" height="%[2]d" fill="#fff"/>
%[4]s%[5]s</svg>
`, d.width, d.height, html.EscapeString(title), d.arrows.String(), d.body.String())
}

// wrap breaks a text into lines of at most width characters.
func wrap(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}
