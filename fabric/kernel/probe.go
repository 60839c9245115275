package kernel

import (
	"errors"
	"sync"

	"github.com/netkvlab/netkvlab/fabric"
)

// Probe asks this kernel whether it can do one thing, by doing it in a scratch
// namespace that nothing else sees.
type Probe struct {
	// Name is short and stable, as doctor prints it and NETKVLAB_MUST lists it.
	Name string
	// Need is what would make it work: a kernel option or version.
	Need string
	// Required things a fabric cannot do without; it degrades without the others.
	Required bool

	mu     sync.Mutex
	known  bool
	answer error
}

// The probes. Shaping needs TBF; HTB and U32 are needed where background
// traffic is counted apart, RED where queues mark, FlowQueues where they serve flows in turn. Netem and RED are tried as a
// port uses them: a shaper behind the delay, marks without drops.
var (
	ProbeRoot        = &Probe{Name: "root", Need: "CAP_SYS_ADMIN and CAP_NET_ADMIN", Required: true}
	ProbeNetns       = &Probe{Name: "netns", Need: "CONFIG_NET_NS", Required: true}
	ProbeVeth        = &Probe{Name: "veth", Need: "CONFIG_VETH", Required: true}
	ProbeTBF         = &Probe{Name: "tbf", Need: "CONFIG_NET_SCH_TBF", Required: true}
	ProbeHTB         = &Probe{Name: "htb", Need: "CONFIG_NET_SCH_HTB"}
	ProbeU32         = &Probe{Name: "u32", Need: "CONFIG_NET_CLS_U32"}
	ProbeHashPolicy3 = &Probe{Name: "hash-policy-3", Need: "CONFIG_IP_ROUTE_MULTIPATH and Linux 5.13", Required: true}
	ProbeHashSeed    = &Probe{Name: "hash-seed", Need: "Linux 6.11"}
	ProbeRTOMin      = &Probe{Name: "rto-min", Need: "Linux 6.11"}
	ProbeNetem       = &Probe{Name: "netem", Need: "CONFIG_NET_SCH_NETEM"}
	ProbeRED         = &Probe{Name: "red", Need: "CONFIG_NET_SCH_RED"}
	ProbeFlowQueues  = &Probe{Name: "flow-queues", Need: "CONFIG_NET_SCH_HTB and CONFIG_NET_CLS_BPF"}
	ProbeDCTCP       = &Probe{Name: "dctcp", Need: "CONFIG_TCP_CONG_DCTCP"}
)

// Probes lists all probes, those that others depend on first.
func Probes() []*Probe {
	return []*Probe{
		ProbeRoot, ProbeNetns, ProbeVeth, ProbeTBF, ProbeHTB, ProbeU32, ProbeHashPolicy3, ProbeHashSeed, ProbeRTOMin, ProbeNetem, ProbeRED, ProbeFlowQueues, ProbeDCTCP,
	}
}

// Check answers in three ways: nil, it works; an *UnsupportedError, the kernel
// or the caller's rights lack it; any other error, it could not tell. The
// first two are remembered. Safe for concurrent use.
func (p *Probe) Check() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known {
		return p.answer
	}
	err := p.try()
	if err == nil || errors.Is(err, ErrUnsupported) {
		p.known, p.answer = true, err
	}
	return err
}

// Supported reports what this kernel lacks of what a plan needs, joined; nil
// when it can carry it. HTB and the u32 filter are needed only for plans with
// classes, RED only for plans with marks, queues of flows only for fair ones; without netem a fabric has no latency
// (see Features.Latency).
func Supported(plan *fabric.Plan) error {
	var errs []error
	for _, p := range Probes() {
		if p.Required || plan.Classes && (p == ProbeHTB || p == ProbeU32) || plan.Marks() && p == ProbeRED || plan.Fair() && p == ProbeFlowQueues {
			errs = append(errs, p.Check())
		}
	}
	return errors.Join(errs...)
}

// Unsupported is a probe whose answer is known to be no: for tests of code that
// acts on probes.
func Unsupported(name, need string, cause error) *Probe {
	return &Probe{Name: name, Need: need, known: true, answer: &UnsupportedError{Feature: name, Need: need, Cause: cause}}
}
