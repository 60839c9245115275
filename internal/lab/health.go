package lab

import (
	"context"
	"fmt"
	"strings"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel"
)

// DamagedError names the missing parts of a lab.
type DamagedError struct {
	Lab   string
	Parts []string
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("lab %q is damaged (%s): remove it with `netkvlab down %s` and build it anew",
		e.Lab, shorten(e.Parts, 6), e.Lab)
}

// shorten keeps a list readable.
func shorten(parts []string, most int) string {
	if len(parts) <= most {
		return strings.Join(parts, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(parts[:most], ", "), len(parts)-most)
}

// damaged lists the missing parts of a lab: namespaces, links, agents.
func damaged(ctx context.Context, st *State, plan *fabric.Plan, opt Options) []string {
	parts := []string{}
	d, err := kernel.Inspect(ctx, st.Lab, plan, kernel.Options{})
	switch {
	case err != nil:
		parts = append(parts, fmt.Sprintf("cannot look at the fabric: %v", err))
	case !d.None():
		parts = append(parts, d.String())
	}
	for _, a := range st.Agents {
		alive, err := opt.Runtime.Alive(a)
		switch {
		case err != nil:
			parts = append(parts, fmt.Sprintf("agent %s: %v", a.Node, err))
		case !alive:
			parts = append(parts, fmt.Sprintf("agent %s is dead", a.Node))
		}
	}
	return parts
}
