package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

// width is that of the page, in columns.
const width = 80

// page shows the scenes while they are played: at most 40 lines in all.
type page struct {
	w     io.Writer
	color bool
	// live: a scene has a line that changes while it is played, and that its result
	// replaces.
	live bool
	// titles: only the titles of the scenes are written, as they begin.
	titles bool
}

// newPage writes to stdout; with --json only the titles, to stderr.
func newPage(o options, stdout, stderr io.Writer) *page {
	if o.json {
		return &page{w: stderr, titles: true}
	}
	fancy := !o.plain && os.Getenv("NO_COLOR") == "" && isTerminal(stdout)
	return &page{w: stdout, color: fancy, live: fancy}
}

// isTerminal: the null device looks like one, too, and does not mind.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// Styles that can be read on dark and on light.
const (
	bold  = "1"
	green = "32"
	red   = "1;31"
)

func (p *page) style(code, text string) string {
	if !p.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (p *page) head(cores int) {
	if p.titles {
		return
	}
	p.print(p.style(bold, "One etcd, and an API server's storage over it twice: stock, and with rvfloor.") + "\n" +
		fmt.Sprintf("All figures are measured now, on %d cores. It takes some 25 seconds.\n", cores))
}

// scene begins one.
func (p *page) scene(number int, title string) {
	if p.titles {
		p.print(fmt.Sprintf("%d  %s\n", number, title))
		return
	}
	p.status("")
	p.print("\n" + p.style(bold, fmt.Sprintf("%d  %s", number, title)) + "\n")
}

// status replaces the live line; empty text removes it.
func (p *page) status(text string) {
	if !p.live {
		return
	}
	if text != "" {
		text = "   ... " + text
	}
	p.print("\r\x1b[K" + text)
}

// result ends a scene.
func (p *page) result(r result) {
	if p.titles {
		return
	}
	p.status("")
	for _, line := range tabled(r.Rows) {
		p.print("   " + line + "\n")
	}
	if r.Seen {
		p.print("   " + p.style(green, "=> "+r.Verdict) + "\n")
		return
	}
	for _, line := range wrapped("NOT AS CLAIMED: "+r.Claim, width-3) {
		p.print("   " + p.style(red, line) + "\n")
	}
}

func (p *page) foot() {
	if p.titles {
		return
	}
	p.print(fmt.Sprintf("\nWire: %s\nRead: README.md; go run ./examples/bench --help; go run ./examples/apiserver\n",
		p.style(bold, "cfg.RESTOptionsGetter = backends.RESTOptionsGetter(cfg.RESTOptionsGetter)")))
}

// print does not say when it fails: who reads the page sees that, and nobody else
// could do anything about it.
func (p *page) print(text string) { _, _ = io.WriteString(p.w, text) }

// tabled aligns the rows of a scene, which have the same figures: the sides on the
// left, the figures on the right. An error comes last, over several lines if need be.
func tabled(rows []row) (lines []string) {
	name, shown := 0, make([]int, len(rows[0].Figures)) // the widest of each column
	for _, r := range rows {
		name = max(name, len(r.Side))
		for i, f := range r.Figures {
			shown[i] = max(shown[i], len(f.shown))
		}
	}
	for _, r := range rows {
		line := fmt.Sprintf("%-*s", name, r.Side)
		for i, f := range r.Figures {
			line += "  "
			if f.label != "" {
				line += f.label + " "
			}
			line += fmt.Sprintf("%*s", shown[i], f.shown)
		}
		if r.Error == "" {
			lines = append(lines, line)
			continue
		}
		line += "  "
		indent := strings.Repeat(" ", len(line))
		for i, part := range wrapped(r.Error, width-3-len(line)) {
			if i == 0 {
				lines = append(lines, line+part)
			} else {
				lines = append(lines, indent+part)
			}
		}
	}
	return lines
}

// wrapped breaks text between words into lines of at most so many columns; a word
// that is longer is broken itself.
func wrapped(text string, columns int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
		for runes := []rune(line); len(runes) > columns; runes = []rune(line) {
			lines, line = append(lines, string(runes[:columns])), string(runes[columns:])
		}
	}
	return append(lines, line)
}
