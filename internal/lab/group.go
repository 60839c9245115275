package lab

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

// A group is several labs of one scenario that one process builds, uses and removes together:
// NAME, NAME-2, NAME-3. Each but the first has the first one's name in its state, so that `down
// NAME` finds them all. Otherwise each is a normal lab.

// memberName is the name of the n-th lab of a group, from 1.
func memberName(name string, n int) string {
	if n == 1 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, n)
}

// BuildGroup builds n labs of a scenario. If one of them fails, all are removed.
func BuildGroup(ctx context.Context, c *trials.Cluster, n int, opt Options) ([]*Lab, error) {
	s := c.Scenario
	if last := memberName(s.Name, n); !kernel.ValidLab(last) {
		return nil, trials.Invalidf("%d fabrics: %q cannot be a lab's name: give the scenario a shorter one", n, last)
	}
	if n > 1 { // a single lab reports itself what it lacks
		if room, err := RoomFor(c); err != nil {
			return nil, err
		} else if room < n {
			return nil, fmt.Errorf("%d fabrics of %s do not fit on this host (its memory, or too many queues for flows), %d do", n, s.Name, room)
		}
	}
	labs := make([]*Lab, n)
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range labs {
		g.Go(func() (err error) {
			own := opt
			if i > 0 {
				own.group = s.Name
			}
			labs[i], err = Build(inner, c.Vary(func(s *scenarios.Scenario) { s.Name = memberName(s.Name, i+1) }), own)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		labs = slices.DeleteFunc(labs, func(l *Lab) bool { return l == nil })
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), teardownTimeout)
		defer cancel()
		return nil, errors.Join(err, RemoveGroup(undo, labs))
	}
	return labs, nil
}

// RemoveGroup removes labs that this process has locked.
func RemoveGroup(ctx context.Context, labs []*Lab) error {
	errs := make([]error, len(labs))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, l := range labs {
		g.Go(func() error {
			_, errs[i] = l.Remove(ctx)
			return nil
		})
	}
	_ = g.Wait() // each lab has its own error
	return errors.Join(errs...)
}

// DownAll removes labs by name, each with its group. A process that works on several of them is
// interrupted only once: after a second interruption it would stop at once and leave them
// behind.
func DownAll(ctx context.Context, names []string, opt Options) ([]Removed, error) {
	opt.asked = &asking{}
	removed, errs := []Removed{}, []error(nil)
	done := map[string]bool{}
	for _, name := range names {
		members, err := opt.Store.members(name)
		errs = append(errs, err)
		for i, m := range append([]string{name}, members...) {
			if done[m] {
				continue
			}
			done[m] = true
			r, err := Down(ctx, m, opt)
			if err != nil {
				errs = append(errs, err)
			} else if i == 0 || !r.Nothing { // the process of the first may have removed the others
				removed = append(removed, r)
			}
		}
	}
	return removed, errors.Join(errs...)
}

// members returns the other labs in a lab's group. A state that cannot be read counts as none.
func (s Store) members(name string) ([]string, error) {
	labs, err := s.Labs()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(labs, func(l string) bool {
		st, err := s.Load(l)
		return err != nil || st.Group != name
	}), nil
}

// asking remembers which processes were asked to end. It is safe for concurrent use.
type asking struct {
	mu   sync.Mutex
	done map[Process]bool
}

// first reports whether a process was not asked before, and remembers that it is now. A nil
// asking remembers nothing.
func (a *asking) first(p Process) bool {
	if a == nil {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done[p] {
		return false
	}
	if a.done == nil {
		a.done = map[Process]bool{}
	}
	a.done[p] = true
	return true
}
