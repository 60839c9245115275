package lab

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/scaling"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

const (
	// namespaceBytes and agentBytes are the memory of one namespace and one agent, measured and
	// rounded up. An agent itself (PSS) takes 3 MiB when it waits and 6 MiB when 70 connections
	// carry 1 Gbit/s. The kernel's part, page tables and sockets, is 1 to 2 MiB.
	namespaceBytes = 400 << 10
	agentBytes     = 10 << 20
	// containerBytes is the memory of the engine's own process per container.
	containerBytes = 14 << 20
	// overload and hopeless are multiples of the host's capacity. If a full fabric needs more than
	// overload, the load of the scenario itself is estimated. If that needs more than hopeless on
	// average, the scenario is refused.
	overload, hopeless = 8, 2
)

// checkName refuses an invalid lab name before it becomes part of a path.
func checkName(name string) error {
	if !kernel.ValidLab(name) {
		return trials.Invalidf("%.60q cannot be a lab's name: 1..40 of a-z, 0-9 and -, no - at either end (`netkvlab ps` lists the labs)", name)
	}
	return nil
}

// preflight refuses what cannot work, before anything is made. Its error says what to do.
func preflight(ctx context.Context, c *trials.Cluster) error {
	if err := NeedRoot(); err != nil {
		return err
	}
	// This check is first, since its error lists the available congestion controls. Supported
	// reports missing rights.
	if err := host.TryCongestionControl(c.Scenario.Transfer.CongestionControl); err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("transfer.congestionControl: %w", err)
	}
	if err := kernel.Supported(c.Plan); err != nil {
		return fmt.Errorf("this kernel cannot carry the lab: %w (`netkvlab doctor` shows all that is missing)", err)
	}
	// Check before estimating the load, which needs the workload.
	if err := c.Check(); err != nil {
		return err
	}
	need, free, err := memory(c)
	if err != nil {
		return err
	}
	if need > free*9/10 {
		return fmt.Errorf("%s is too large for this host: %d namespaces and %d agents need about %d MiB, %d MiB are available; make topology smaller",
			c.Scenario.Name, len(c.Plan.Nodes), len(agentNodes(c)), need>>20, free>>20)
	}
	if err := notTooFast(ctx, c); err != nil {
		return err
	}
	return kernel.CheckMounts()
}

// NeedRoot returns an error if this process cannot enter network namespaces. Even looking at
// labs needs this.
func NeedRoot() error {
	if unix.Geteuid() != 0 {
		return errors.New("needs root to work with network namespaces: run it with sudo")
	}
	return nil
}

// memory returns what a lab needs of this host's memory, and what is available, in bytes.
func memory(c *trials.Cluster) (need, free int64, err error) {
	agent := int64(agentBytes)
	if c.Scenario.Runtime == scenarios.RuntimeDocker {
		agent += containerBytes
	}
	free, err = host.AvailableMemory(host.Proc)
	return int64(len(c.Plan.Nodes))*namespaceBytes + int64(len(agentNodes(c)))*agent, free, err
}

// notTooFast refuses a scale at which the host cannot carry the load even of the scaled fabric:
// of a full fabric, or of the scenario's transfers if they never fill it.
func notTooFast(ctx context.Context, c *trials.Cluster) error {
	// This is what every host of its size carries. The calibrated capacity is only for auto.
	carries := host.Uncalibrated(runtime.NumCPU())
	times := host.FullLoad(c.Plan) / carries.Of(c.Plan)
	if times <= overload {
		return nil
	}
	d, err := scaling.Expect(ctx, c, 1)
	if err != nil {
		return err
	}
	if times = d.On(carries, c.Plan).Busy(); times <= hopeless {
		return nil
	}
	return fmt.Errorf("%s is too fast for this host: at scale.rate %g it asks for %.0f times what its CPUs forward; use scale.rate %.0f or more, or auto",
		c.Scenario.Name, c.Plan.Scale.Rate, times, 2*c.Plan.Scale.Rate*times)
}

// mostFlowQueues bounds the flow queues of labs that are made together: the kernel's time to
// make them grows with the square of their number, and is about ten seconds for this many.
const mostFlowQueues = 45_000

// RoomFor returns how many labs of a scenario fit into the host's memory, at any scale; fewer if
// they would have too many flow queues.
func RoomFor(c *trials.Cluster) (int, error) {
	need, free, err := memory(c)
	if err != nil {
		return 0, err
	}
	room := int(free * 9 / 10 / max(1, need))
	if c.Plan.Fair() {
		room = min(room, max(1, mostFlowQueues/c.Plan.FlowQueues()))
	}
	return room, nil
}
