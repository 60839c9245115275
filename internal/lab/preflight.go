package lab

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/scaling"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

const (
	// namespaceBytes and agentBytes are what one costs in memory, measured and rounded up.
	// An agent's own (PSS) is 3 MiB when it waits and 6 when 70 connections carry 1 Gbit/s;
	// the kernel's part, page tables and sockets, is 1 to 2.
	namespaceBytes = 400 << 10
	agentBytes     = 10 << 20
	// containerBytes is what the engine's own process for each container adds.
	containerBytes = 14 << 20
	// overload is how many times the host's capacity a full fabric may ask for without a
	// closer look at what the scenario will ask, and hopeless how many times that may be
	// on average before the scenario is refused rather than run in vain.
	overload, hopeless = 8, 2
)

// checkName refuses what cannot be a lab's name, before it becomes part of a path.
func checkName(name string) error {
	if !kernel.ValidLab(name) {
		return trials.Invalidf("%.60q cannot be a lab's name: 1..40 of a-z, 0-9 and -, no - at either end (`netkvlab ps` lists the labs)", name)
	}
	return nil
}

// Preflight refuses what cannot work before anything is made, and says what to do.
func Preflight(ctx context.Context, c *trials.Cluster, opt Options) error {
	s, p := c.Scenario, c.Plan
	if err := NeedRoot(); err != nil {
		return err
	}
	// First, since this error names the congestion controls to choose from. A lack of
	// rights is for Supported to report.
	if err := host.TryCongestionControl(s.Transfer.CongestionControl); err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("transfer.congestionControl: %w", err)
	}
	if err := kernel.Supported(p); err != nil {
		return fmt.Errorf("this kernel cannot carry the lab: %w (`netkvlab doctor` shows all that is missing)", err)
	}
	// Before the load is estimated, which needs the workload.
	if err := c.Check(); err != nil {
		return err
	}
	return fits(ctx, c)
}

// NeedRoot refuses who cannot enter network namespaces: not even looking at labs
// works without.
func NeedRoot() error {
	if unix.Geteuid() != 0 {
		return errors.New("needs root to work with network namespaces: run it with sudo")
	}
	return nil
}

func bytesOfAgent(s *scenarios.Scenario) int64 {
	if s.Runtime == scenarios.RuntimeDocker {
		return agentBytes + containerBytes
	}
	return agentBytes
}

// fits compares the lab with the host's memory and its CPUs.
func fits(ctx context.Context, c *trials.Cluster) error {
	s, p := c.Scenario, c.Plan
	free, err := host.AvailableMemory(host.Proc)
	if err != nil {
		return err
	}
	agents := agentsOf(p, s)
	need := int64(len(p.Nodes))*namespaceBytes + int64(agents)*bytesOfAgent(s)
	if need > free*9/10 {
		return fmt.Errorf("%s is too large for this host: %d namespaces and %d agents need about %d MiB, %d MiB are available; make topology smaller",
			s.Name, len(p.Nodes), agents, need>>20, free>>20)
	}
	return notTooFast(ctx, c)
}

// notTooFast refuses a scale at which the host could not even carry what is left of it:
// the fabric full, unless the scenario's own transfers never fill it.
func notTooFast(ctx context.Context, c *trials.Cluster) error {
	// What no host of its size fails to carry; what this one really carries is for auto.
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

func agentsOf(p *fabric.Plan, s *scenarios.Scenario) int {
	if s.Workload.Kind == scenarios.WorkloadFlows {
		return len(trials.Endpoints(p))
	}
	return len(p.Prefill) + len(p.Decode) + len(p.Background)
}

// mostFlowQueues is what labs made together may have in all: the kernel's time to make them
// goes by their square, and is some ten seconds for so many.
const mostFlowQueues = 45_000

// RoomFor is how many labs of a scenario fit into the host's memory, whatever their scale;
// fewer if they would have too many queues for flows.
func RoomFor(c *trials.Cluster) (int, error) {
	s, p := c.Scenario, c.Plan
	free, err := host.AvailableMemory(host.Proc)
	if err != nil {
		return 0, err
	}
	need := int64(len(p.Nodes))*namespaceBytes + int64(agentsOf(p, s))*bytesOfAgent(s)
	room := int(free * 9 / 10 / max(1, need))
	if p.Fair() {
		room = min(room, max(1, mostFlowQueues/p.FlowQueues()))
	}
	return room, nil
}
