package lab

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/nodes"
)

// Exec runs a command inside a node's namespace and returns its exit code. It takes no lock, so
// that it works while a lab runs. Signals (may be nil) are forwarded to the command.
func Exec(ctx context.Context, name, node string, command []string, stdio nodes.Stdio, signals <-chan os.Signal, opt Options) (int, error) {
	if err := checkName(name); err != nil {
		return 0, err
	}
	all, err := kernel.Namespaces(name)
	if err != nil {
		return 0, err
	}
	if len(all) == 0 {
		return 0, fmt.Errorf("lab %q: %w: `netkvlab ps` lists the labs", name, ErrNotUp)
	}
	var known []string
	for _, s := range all {
		if s.Node == node {
			return opt.Runtime.Exec(ctx, nodes.ExecSpec{Lab: name, Node: node, Netns: s.Path, Command: command, Stdio: stdio, Signals: signals})
		}
		known = append(known, s.Node)
	}
	return 0, fmt.Errorf("lab %q has no node %q; it has %s", name, node, strings.Join(known, " "))
}
