package lab

import (
	"context"
	"fmt"
	"strings"

	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/nodes"
)

// Exec runs a command inside a node's namespace, which it finds by the names of lab and node,
// and returns its exit code. It takes no lock, so that it works while a lab runs.
func Exec(ctx context.Context, c nodes.ExecSpec, opt Options) (int, error) {
	if err := checkName(c.Lab); err != nil {
		return 0, err
	}
	all, err := kernel.Namespaces(c.Lab)
	if err != nil {
		return 0, err
	}
	if len(all) == 0 {
		return 0, fmt.Errorf("lab %q: %w: `netkvlab ps` lists the labs", c.Lab, ErrNotUp)
	}
	var known []string
	for _, s := range all {
		if s.Node == c.Node {
			c.Netns = s.Path
			return opt.Runtime.Exec(ctx, c)
		}
		known = append(known, s.Node)
	}
	return 0, fmt.Errorf("lab %q has no node %q; it has %s", c.Lab, c.Node, strings.Join(known, " "))
}
