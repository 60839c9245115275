package host

import (
	"fmt"
	"time"
)

const (
	// Window is how often the host is sampled: a mean over the run hides the bursts that
	// lengthen transfers.
	Window = 250 * time.Millisecond
	// BusyIdle is the idle share under which a window counts as busy.
	BusyIdle = 0.10
	// othersNoted is the share of CPU time from which other processes are the cause of busy
	// windows: without them so much more, and so enough, would have been idle.
	othersNoted = BusyIdle
	// stealNoted is the share of CPU time from which a hypervisor is the cause: it takes from
	// those CPUs that have work.
	stealNoted = 0.02
	// stopNoted is the shortest time that counts as a stop: beyond the 20 ms or so by which
	// the kernel's account of a CPU and its clock differ, and timers of an idle host.
	stopNoted = 50 * time.Millisecond
	// idleStop is the idle share from which a late timer is no lack of CPU.
	idleStop = 0.5
)

// Load is what the host did while a Watch looked.
type Load struct {
	// Windows is how many were sampled, Busy how many had less than BusyIdle idle, and
	// MemoryPressure in how many TCP had more memory than it should.
	Windows, Busy, MemoryPressure int
	// Idle, SoftIRQ and Steal are shares of the time of the CPUs that this process may run
	// on. Idle is exact, the others are tick samples.
	Idle, SoftIRQ, Steal float64
	// Others is the share that processes other than the run's own took; 0 where nobody says
	// which those are. A process of the run that has ended meanwhile is another.
	Others float64
	// SoftnetDrops are packets that a CPU's backlog had no room for.
	SoftnetDrops int64
	// CPUStopped is the longest time in a window of which a CPU gives no account: it neither
	// worked nor was idle, so the machine's own host had stopped it. Stopped is the longest
	// time by which this program came late to a window in which at least half of the host was
	// idle, so it was stopped. Both are 0 below 50 ms.
	CPUStopped, Stopped time.Duration
	// Err says why sampling ended early.
	Err error
}

// Outside tells whether a lack of CPU, or a timer that was late, has its cause outside of
// the experiment, and names it.
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
