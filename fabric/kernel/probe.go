package kernel

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"

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
