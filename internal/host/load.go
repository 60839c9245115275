package host

import (
	"fmt"
	"time"
)

const (
	// Window is the sampling period: a mean over the run would hide the bursts that lengthen
	// transfers.
	Window = 250 * time.Millisecond
	// BusyIdle is the idle share under which a window counts as busy.
	BusyIdle = 0.10
	// othersNoted is the share of CPU time from which other processes count as the cause of busy
	// windows: without them at least this share, which is enough, would have been idle.
	othersNoted = BusyIdle
	// stealNoted is the same for a hypervisor. It is smaller, since a hypervisor takes time only
	// from CPUs that have work.
	stealNoted = 0.02
	// stopNoted is the shortest time that counts as a stop. It is above the lateness of timers on
	// an idle host, and above the 20 ms or so by which the kernel's CPU times and its clock differ.
	stopNoted = 50 * time.Millisecond
	// idleStop is the idle share from which a late timer does not mean a lack of CPU.
	idleStop = 0.5
)

// Load is the host's load while a Watch sampled.
type Load struct {
	// Windows counts the samples, Busy those with less than BusyIdle idle, and MemoryPressure those
	// in which TCP used more memory than it should.
	Windows, Busy, MemoryPressure int
	// Idle, SoftIRQ and Steal are shares of the time of the CPUs that this process may run
	// on. Idle is exact, the others are tick samples.
	Idle, SoftIRQ, Steal float64
	// Others is the share of processes other than the run's own; 0 if those are not known. A
	// process of the run that ended in the meantime counts as another.
	Others float64
	// SoftnetDrops counts packets that did not fit into a CPU's backlog.
	SoftnetDrops int64
	// CPUStopped is the longest time in a window in which a CPU neither worked nor was idle, so a
	// hypervisor had stopped it. Stopped is the longest delay of this program in a window in which
	// at least half of the host was idle, so the program was stopped. Both are 0 below 50 ms.
	CPUStopped, Stopped time.Duration
	// Err says why sampling ended early.
	Err error
}

// Outside reports whether a lack of CPU or a late timer has its cause outside of the experiment,
// and names the cause.
func (l Load) Outside() (reason string, ok bool) {
	switch {
	case l.Others > othersNoted:
		return fmt.Sprintf("processes other than this run took %.0f%% of the CPU time", 100*l.Others), true
	case l.Steal > stealNoted:
		return fmt.Sprintf("a hypervisor took %.1f%% of the CPU time", 100*l.Steal), true
	case l.CPUStopped > 0:
		return fmt.Sprintf("a CPU stood still for %v: a hypervisor stopped it", l.CPUStopped.Round(time.Millisecond)), true
	case l.Stopped > 0:
		return fmt.Sprintf("netkvlab stood still for %v while CPUs were idle: it was stopped, or the whole machine was", l.Stopped.Round(time.Millisecond)), true
	}
	return "", false
}
