package kernel

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/netkvlab/netkvlab/fabric"
)

// Probe is a feature that a kernel or a caller may lack. doctor prints the table of
// probes, the preflight of a lab checks them, and tests require them by name.
type Probe struct {
	// Name is short and stable, as doctor prints it and NETKVLAB_MUST lists it.
	Name string
	// Need is what the feature needs: a kernel option or version.
	Need string
	// Without says what a lab does where the feature is missing; empty for those
	// that are Required.
	Without string
	// Required: no fabric works without the feature.
	Required bool
	// NeededBy reports whether a plan needs the feature, too; nil: none needs it.
	NeededBy func(plan *fabric.Plan) bool
	// Try uses the feature where nothing else is affected, and returns the kernel's answer.
	Try func() error

	mu     sync.Mutex
	known  bool
	answer error
}

// Probes lists all features, those that others depend on first.
func Probes() []*Probe { return probes }

// Lacks checks the feature with a name, which must be one of Probes: see Probe.Check.
func Lacks(name string) error {
	return probes[slices.IndexFunc(probes, func(p *Probe) bool { return p.Name == name })].Check()
}

// Check answers in three ways: nil, it works; an *UnsupportedError, the kernel
// or the caller's rights lack it; any other error, Check could not find out. The
// first two are remembered. Safe for concurrent use.
func (p *Probe) Check() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known {
		return p.answer
	}
	err := p.judge(p.Try())
	if err == nil || errors.Is(err, ErrUnsupported) {
		p.known, p.answer = true, err
	}
	return err
}

// unknown are the errnos of a kernel that does not know a request.
var unknown = []syscall.Errno{syscall.ENOENT, syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EINVAL, syscall.ENODEV, syscall.EPROTONOSUPPORT}

// judge finds out from the kernel's answer whether the kernel lacks the feature, the caller
// lacks rights, or neither is certain.
func (p *Probe) judge(err error) error {
	need := p.Need
	switch {
	case err == nil, errors.Is(err, ErrUnsupported):
		return err
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		need = "root (CAP_SYS_ADMIN and CAP_NET_ADMIN)"
	case !slices.ContainsFunc(unknown, func(errno syscall.Errno) bool { return errors.Is(err, errno) }):
		return fmt.Errorf("probe %s: %w", p.Name, err)
	}
	return &UnsupportedError{Feature: p.Name, Need: need, Cause: err}
}

// Supported returns Check's error of the first feature that a plan needs and this host
// lacks; nil when the host can carry the plan. Netem is never needed: without it
// a fabric has no latency (see Features.Latency).
func Supported(plan *fabric.Plan) error {
	for _, p := range probes {
		if !p.Required && (p.NeededBy == nil || !p.NeededBy(plan)) {
			continue
		}
		if err := p.Check(); err != nil {
			if p.Without != "" {
				err = fmt.Errorf("%w; without it, %s", err, p.Without)
			}
			return err
		}
	}
	return nil
}

// Latency is the one-way latency, in paper time, that the links of a tier add up to;
// 0 where they have none of their own.
func (f *Fabric) Latency() [4]time.Duration {
	if !f.Features().Latency {
		return [4]time.Duration{}
	}
	return f.Plan().Latency
}

// Remarks says in sentences which latency and which marking the fabric emulates, and
// which it does not.
func (f *Fabric) Remarks() []string {
	var lack error
	if f.Plan().Delayed() && !f.Features().Latency {
		lack = Lacks("netem")
	}
	remarks := append([]string{latencyRemark(f.Plan(), lack)}, markRemarks(f.Plan())...)
	if f.Plan().Fair() {
		remarks = append(remarks, "switch ports serve the flows that wait in them in turn (topology.buffers.queueing: fair), which real ones do not; sharing is fairer than TCP's own")
	}
	return remarks
}

// latencyRemark describes the latency of a plan's links; lack is why this kernel cannot
// emulate any.
func latencyRemark(p *fabric.Plan, lack error) string {
	const floor = "the host's own forwarding, about 25 us per round trip"
	switch {
	case lack != nil:
		return fmt.Sprintf("link latency is not emulated, since this kernel cannot (%v); what remains is %s", lack, floor)
	case !p.Delayed():
		return fmt.Sprintf("link latency is not emulated, since it is under %v on every path through a switch; what remains is %s", fabric.MinLatency, floor)
	}
	var tiers []string
	for tier := range p.Latency {
		what := "none"
		if p.Latency[tier] > 0 {
			what = p.Latency[tier].String()
		}
		tiers = append(tiers, fmt.Sprintf("%s at tier %d", what, tier))
	}
	return fmt.Sprintf("link latency is emulated, one way %s; added to it is %s", strings.Join(tiers, ", "), floor)
}

// markRemarks gives the backlog from which queues mark.
func markRemarks(p *fabric.Plan) []string {
	var from []int
	for _, port := range slices.Concat(p.Ports...) {
		if port.Shape.MarkBytes > 0 {
			from = append(from, port.Shape.MarkBytes)
		}
	}
	if len(from) == 0 {
		return nil
	}
	least, most := slices.Min(from), slices.Max(from)
	if least == most {
		return []string{fmt.Sprintf("switch ports mark packets (ECN) from a backlog of %d bytes on", least)}
	}
	return []string{fmt.Sprintf("switch ports mark packets (ECN) from a backlog of %d to %d bytes on, by their rates", least, most)}
}
