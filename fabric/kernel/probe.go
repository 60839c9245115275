package kernel

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"

	"github.com/netkvlab/netkvlab/fabric"
)

// Probe is a feature that a kernel or a caller may lack: a row of the table that
// doctor prints, the preflight of a lab checks and tests require by name.
type Probe struct {
	// Name is short and stable, as doctor prints it and NETKVLAB_MUST lists it.
	Name string
	// Need is what would make it work: a kernel option or version.
	Need string
	// Without says what a lab does where the feature is missing; empty for those
	// that are Required.
	Without string
	// Required features are those that no fabric can do without.
	Required bool
	// NeededBy tells whether a plan cannot do without the feature either; nil: none needs it.
	NeededBy func(plan *fabric.Plan) bool
	// Try does the thing where nothing else sees it, and returns the kernel's answer.
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
// or the caller's rights lack it; any other error, it could not tell. The
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

// unknown are the errnos by which a kernel says "I do not know that".
var unknown = []syscall.Errno{syscall.ENOENT, syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EINVAL, syscall.ENODEV, syscall.EPROTONOSUPPORT}

// judge tells from the kernel's answer whether it lacks the feature, the caller lacks
// rights, or neither is certain.
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

// Supported returns what Check says of the first feature that this host lacks of those
// that a plan needs; nil when it can carry the plan. Netem is never needed: without it
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
