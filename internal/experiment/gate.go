package experiment

import "sync"

// gate synchronises lanes: they begin a trial together, and go on together after it. So the work
// of one lane before or after its trial takes no CPU from another lane's trial. A lane that has
// finished leaves the gate, and the others no longer wait for it.
type gate struct {
	mu      sync.Mutex
	opened  sync.Cond
	members int
	arrived int
	passed  int // how often the gate has opened
}

func newGate(members int) *gate {
	g := &gate{members: members}
	g.opened.L = &g.mu
	return g
}

// wait returns when all members wait. A nil gate returns at once.
func (g *gate) wait() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.arrived++
	at := g.passed
	g.lockedOpen()
	for g.passed == at {
		g.opened.Wait()
	}
}

// leave removes a member.
func (g *gate) leave() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members--
	g.lockedOpen()
}

func (g *gate) lockedOpen() {
	if g.arrived == 0 || g.arrived < g.members {
		return
	}
	g.arrived = 0
	g.passed++
	g.opened.Broadcast()
}
