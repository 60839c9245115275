package lab

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// Progress shows the user on stderr what the program does: one line that is rewritten on a
// terminal, plain lines otherwise. It is safe for concurrent use. The zero value and nil print
// nothing.
type Progress struct {
	mu    sync.Mutex
	w     io.Writer
	tty   bool
	last  time.Time
	width int
	now   func() time.Time
}

const (
	plainEvery  = 10 * time.Second       // the least time between lines of one phase without a terminal
	redrawEvery = 100 * time.Millisecond // the least time between rewrites of the terminal line
)

// NewProgress writes to w. It detects whether w is a terminal.
func NewProgress(w io.Writer) *Progress {
	p := &Progress{w: w, now: time.Now}
	if f, ok := w.(*os.File); ok {
		p.tty = term.IsTerminal(int(f.Fd()))
	}
	return p
}

// Phase reports that a phase begins.
func (p *Progress) Phase(format string, args ...any) { p.print(true, fmt.Sprintf(format, args...)) }

// Step reports how far a phase has come: done of total, and the time left if known.
func (p *Progress) Step(phase string, done, total int, left time.Duration) {
	text := fmt.Sprintf("%s: %d of %d", phase, done, total)
	if left > 0 {
		text += fmt.Sprintf(", about %s left", left.Round(time.Second))
	}
	p.print(false, text)
}

// Note prints a permanent line.
func (p *Progress) Note(format string, args ...any) {
	p.locked(func() {
		p.clear()
		fmt.Fprintf(p.w, format+"\n", args...)
	})
}

func (p *Progress) print(always bool, text string) {
	p.locked(func() {
		now, least := p.now(), plainEvery
		if p.tty {
			least = redrawEvery
		}
		switch {
		case !always && now.Sub(p.last) < least:
			return
		case p.tty:
			p.clear()
			fmt.Fprint(p.w, text)
			p.width = len(text)
		default:
			fmt.Fprintln(p.w, text)
		}
		p.last = now
	})
}

// Close ends the line that is rewritten.
func (p *Progress) Close() { p.locked(p.clear) }

// locked calls f while nobody else prints, unless this Progress prints nothing.
func (p *Progress) locked(f func()) {
	if p == nil || p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *Progress) clear() {
	if p.width > 0 {
		fmt.Fprintf(p.w, "\r%*s\r", p.width, "")
		p.width = 0
	}
}
