package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/internal/scaling"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/internal/workload"
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

// InvalidError says that what was asked for is wrong on any host: a name that no
// lab can have, a scenario that no fabric can be made of.
type InvalidError struct{ error }

// Unwrap gives the fault itself.
func (e InvalidError) Unwrap() error { return e.error }

func invalidf(format string, args ...any) error { return InvalidError{fmt.Errorf(format, args...)} }

// checkName refuses what cannot be a lab's name, before it becomes part of a path.
func checkName(name string) error {
	if !kernel.ValidLab(name) {
		return invalidf("%.60q cannot be a lab's name: 1..40 of a-z, 0-9 and -, no - at either end (`netkvlab ps` lists the labs)", name)
	}
	return nil
}

// Plan lays a scenario's fabric out; its scale must be resolved.
func Plan(s *scenarios.Scenario) (*fabric.Plan, error) {
	p, err := fabric.New(s, s.Scale)
	if err != nil {
		return nil, invalidf("plan %s: %w", s.Name, err)
	}
	if _, _, err := backgroundRates(s, p); err != nil {
		return nil, err
	}
	return p, nil
}

// Preflight refuses what cannot work before anything is made, and says what to do.
func Preflight(ctx context.Context, s *scenarios.Scenario, p *fabric.Plan, opt Options) error {
	if err := NeedRoot(); err != nil {
		return err
	}
	// First, since this error names the congestion controls to choose from. A lack of
	// rights is for Supported to report.
	if err := CongestionControl(s.Transfer.CongestionControl); err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("transfer.congestionControl: %w", err)
	}
	if err := kernel.Supported(p); err != nil {
		return fmt.Errorf("this kernel cannot carry the lab: %w (`netkvlab doctor` shows all that is missing)", err)
	}
	// Before the load is estimated, which needs the workload.
	if err := CheckWorkload(s, p); err != nil {
		return err
	}
	return fits(ctx, p, s)
}

// NeedRoot refuses who cannot enter network namespaces: not even looking at labs
// works without.
func NeedRoot() error {
	if unix.Geteuid() != 0 {
		return errors.New("needs root to work with network namespaces: run it with sudo")
	}
	return nil
}

// CongestionControls lists what the kernel has at the moment; modules may add to it.
func CongestionControls() []string {
	text, err := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	if err != nil {
		return nil // no proc file system: the caller's own attempt decides
	}
	have := strings.Fields(string(text))
	slices.Sort(have)
	return have
}

func bytesOfAgent(s *scenarios.Scenario) int64 {
	if s.Runtime == scenarios.RuntimeDocker {
		return agentBytes + containerBytes
	}
	return agentBytes
}

// fits compares the lab with the host's memory and its CPUs.
func fits(ctx context.Context, p *fabric.Plan, s *scenarios.Scenario) error {
	free, err := availableMemory()
	if err != nil {
		return err
	}
	agents := agentsOf(p, s)
	need := int64(len(p.Nodes))*namespaceBytes + int64(agents)*bytesOfAgent(s)
	if need > free*9/10 {
		return fmt.Errorf("%s is too large for this host: %d namespaces and %d agents need about %d MiB, %d MiB are available; make topology smaller",
			s.Name, len(p.Nodes), agents, need>>20, free>>20)
	}
	return notTooFast(ctx, p, s)
}

// notTooFast refuses a scale at which the host could not even carry what is left of it:
// the fabric full, unless the scenario's own transfers never fill it.
func notTooFast(ctx context.Context, p *fabric.Plan, s *scenarios.Scenario) error {
	full, err := worstLoad(s)
	if err != nil {
		return err
	}
	times := full / capacity()
	if times <= overload {
		return nil
	}
	d, err := scaling.Expect(ctx, s, 1)
	if err != nil {
		return err
	}
	if times = d.On(scaling.Uncalibrated(runtime.NumCPU()), p).Busy(); times <= hopeless {
		return nil
	}
	return fmt.Errorf("%s is too fast for this host: at scale.rate %g it asks for %.0f times what its CPUs forward; use scale.rate %.0f or more, or auto",
		s.Name, s.Scale.Rate, times, 2*s.Scale.Rate*times)
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
func RoomFor(s *scenarios.Scenario) (int, error) {
	scale := s.Scale
	if scale.Rate == 0 {
		scale.Rate = 1
	}
	p, err := fabric.New(s, scale)
	if err != nil {
		return 0, invalidf("plan %s: %w", s.Name, err)
	}
	free, err := availableMemory()
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

// availableMemory reads what the kernel thinks can be used without swapping.
func availableMemory() (int64, error) {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("read the host's memory: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read the host's memory: %w", err)
			}
			return kib << 10, nil
		}
	}
	return 0, errors.New("read the host's memory: /proc/meminfo has no MemAvailable")
}

// CheckWorkload reads the workload once, so that a broken trace or an
// impossible path is known before the lab is built.
func CheckWorkload(s *scenarios.Scenario, p *fabric.Plan) error {
	seed := s.Seeds[0]
	if s.Workload.Kind != scenarios.WorkloadFlows {
		_, _, err := workload.Generate(s, seed)
		return err
	}
	flows, err := workload.LoadFlows(s, seed)
	if err != nil {
		return err
	}
	if _, err = trials.Flows(s, p, "packet", seed, flows); err != nil {
		return invalidf("%s: %w", s.Name, err)
	}
	return nil
}
