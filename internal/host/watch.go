package host

import (
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/procfs"
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

// Watch samples the host's load while something runs. Start and Stop may alternate; Load returns
// what was sampled between them.
type Watch struct {
	proc   string
	own    []int
	usable func(cpu int64) bool

	mu    sync.Mutex
	load  Load
	cpu   cpuTime // sum over all samples
	wall  float64 // seconds of all usable CPUs in that time
	used  time.Duration
	since map[int]time.Duration // CPU time that each own process had used when sampling began

	quit, done chan struct{}
}

// NewWatch watches the host of a proc file system. own are the processes of the run; none if
// they are not known.
func NewWatch(proc string, own ...int) *Watch {
	return &Watch{proc: proc, own: own, usable: usableCPUs()}
}

// Start begins sampling.
func (w *Watch) Start() {
	w.quit, w.done = make(chan struct{}), make(chan struct{})
	w.since = w.usages()
	last, err := read(w.proc)
	go func() {
		defer close(w.done)
		if err == nil {
			err = w.run(last)
		}
		if err != nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.load.Err = fmt.Errorf("watch the host: %w", err)
		}
	}()
}

// Stop ends sampling and waits until all is counted.
func (w *Watch) Stop() {
	close(w.quit)
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	for pid, u := range w.usages() {
		w.used += max(0, u-w.since[pid])
	}
}

// Load returns what was sampled up to the last Stop.
func (w *Watch) Load() Load {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.load
	if w.wall > 0 {
		l.Idle, l.SoftIRQ, l.Steal = w.cpu.idle/w.wall, w.cpu.softirq/w.wall, w.cpu.steal/w.wall
		if len(w.own) > 0 {
			l.Others = max(0, w.cpu.processes-w.used.Seconds()) / w.wall
		}
	}
	return l
}

func (w *Watch) run(last reading) error {
	tick := time.NewTicker(Window)
	defer tick.Stop()
	for quit := false; !quit; {
		select {
		case <-w.quit:
			quit = true // the rest of a window counts for the shares, but not as a window
		case <-tick.C:
		}
		now, err := read(w.proc)
		if err != nil {
			return err
		}
		w.note(last, now, !quit)
		last = now
	}
	return nil
}

// usages returns the CPU time that the living processes of the run have used.
func (w *Watch) usages() map[int]time.Duration {
	out := map[int]time.Duration{}
	for _, pid := range w.own {
		if u, err := UsageOf(w.proc, pid); err == nil {
			out[pid] = u.CPU
		}
	}
	return out
}

// note adds the time between two readings: a whole window or the rest of one.
func (w *Watch) note(from, to reading, window bool) {
	took := to.at.Sub(from.at)
	var all cpuTime
	wall, unaccounted := 0.0, time.Duration(0)
	for id, now := range to.cpus {
		before, ok := from.cpus[id]
		if !ok || !w.usable(id) {
			continue
		}
		d := timeOf(now).minus(timeOf(before))
		all = all.plus(d)
		wall += took.Seconds()
		unaccounted = max(unaccounted, took-time.Duration(d.all*float64(time.Second)))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cpu, w.wall = w.cpu.plus(all), w.wall+wall
	w.load.SoftnetDrops += to.drops - from.drops
	if unaccounted >= stopNoted {
		w.load.CPUStopped = max(w.load.CPUStopped, unaccounted)
	}
	if late := took - Window; late >= stopNoted && all.idle >= idleStop*wall {
		w.load.Stopped = max(w.load.Stopped, late)
	}
	if !window {
		return
	}
	w.load.Windows++
	if all.idle < BusyIdle*wall {
		w.load.Busy++
	}
	if to.pressure {
		w.load.MemoryPressure++
	}
}

// reading holds the kernel's counters at one time.
type reading struct {
	at       time.Time
	cpus     map[int64]procfs.CPUStat
	drops    int64 // of all CPUs' backlogs since the boot
	pressure bool
}

func read(proc string) (reading, error) {
	fs, err := procfs.NewFS(proc)
	if err != nil {
		return reading{}, err
	}
	stat, err := fs.Stat()
	if err != nil {
		return reading{}, fmt.Errorf("read CPU times: %w", err)
	}
	out := reading{at: time.Now(), cpus: stat.CPU, pressure: underPressure(fs)}
	if len(out.cpus) == 0 {
		return reading{}, fmt.Errorf("read CPU times: the kernel's stat file names no CPU")
	}
	backlogs, err := fs.NetSoftnetStat()
	if err != nil {
		return reading{}, fmt.Errorf("read packet drops: %w", err)
	}
	for _, b := range backlogs {
		out.drops += int64(b.Dropped)
	}
	return out, nil
}

// underPressure reports whether TCP holds more memory than tcp_mem's second value; false if the
// host does not report it.
func underPressure(fs procfs.FS) bool {
	limits, err1 := fs.SysctlInts("net.ipv4.tcp_mem")
	used, err2 := fs.NetSockstat()
	if err1 != nil || err2 != nil || len(limits) < 2 {
		return false
	}
	for _, p := range used.Protocols {
		if p.Protocol == "TCP" && p.Mem != nil {
			return *p.Mem > limits[1]
		}
	}
	return false
}

// cpuTime is CPU time by use, in seconds.
type cpuTime struct{ processes, idle, softirq, steal, all float64 }

// timeOf sums the times of a CPU. The time of guests is part of that of processes.
func timeOf(c procfs.CPUStat) cpuTime {
	t := cpuTime{processes: c.User + c.Nice + c.System, idle: c.Idle + c.Iowait, softirq: c.SoftIRQ, steal: c.Steal} // waiting for a disk counts as idle
	t.all = t.processes + t.idle + t.softirq + t.steal + c.IRQ
	return t
}

func (t cpuTime) plus(u cpuTime) cpuTime {
	return cpuTime{t.processes + u.processes, t.idle + u.idle, t.softirq + u.softirq, t.steal + u.steal, t.all + u.all}
}

func (t cpuTime) minus(u cpuTime) cpuTime {
	return cpuTime{t.processes - u.processes, t.idle - u.idle, t.softirq - u.softirq, t.steal - u.steal, t.all - u.all}
}
