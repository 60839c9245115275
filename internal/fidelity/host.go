package fidelity

import (
	"fmt"
	"io/fs"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Window is how often idle time is sampled: a mean over the run hides the bursts
// that lengthen transfers.
const Window = 250 * time.Millisecond

// HostLoad is what the host did while trials ran.
type HostLoad struct {
	// Windows is how many were sampled, Busy how many had less than 10 % idle, and
	// MemoryPressure in how many TCP had more memory than it should.
	Windows, Busy, MemoryPressure int
	// Idle, SoftIRQ and Steal are shares of all CPUs' time. Idle is exact, the others
	// are tick samples.
	Idle, SoftIRQ, Steal float64
	// Others is the share that processes other than the run's own took; 0 where nobody
	// tells what the run took (Host.Own).
	Others float64
	// SoftnetDrops are packets that a CPU's backlog had no room for.
	SoftnetDrops int64
	Err          error
}

// Host samples the host's load. Start and Stop may alternate; Load gives all
// that was sampled between them.
type Host struct {
	proc fs.FS
	// Own tells what the run's processes have used of the CPUs since they began; nil where
	// nobody knows. It is asked when sampling starts and stops.
	Own func() time.Duration

	mu      sync.Mutex
	load    HostLoad
	ticks   cpuTicks // summed over what was sampled
	wall    float64  // ticks that all CPUs had in that time
	softnet int64
	own     time.Duration // summed over what was sampled, and
	ownAt   time.Duration // when it began

	quit, done chan struct{}
}

// NewHost watches the host whose proc file system this is.
func NewHost(proc fs.FS) *Host { return &Host{proc: proc} }

// Start begins sampling.
func (h *Host) Start() {
	h.ownAt = h.used()
	h.quit, h.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(h.done)
		if err := h.run(); err != nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.load.Err = err
		}
	}()
}

// Stop ends it.
func (h *Host) Stop() {
	close(h.quit)
	<-h.done
	h.mu.Lock()
	defer h.mu.Unlock()
	h.own += h.used() - h.ownAt
}

func (h *Host) used() time.Duration {
	if h.Own == nil {
		return 0
	}
	return h.Own()
}

// Load is what was sampled so far.
func (h *Host) Load() HostLoad {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.load
	if h.wall > 0 {
		l.Idle, l.SoftIRQ, l.Steal = float64(h.ticks.idle)/h.wall, float64(h.ticks.softirq)/h.wall, float64(h.ticks.steal)/h.wall
		if h.Own != nil {
			l.Others = max(0, float64(h.ticks.processes)-h.own.Seconds()*ticksPerSecond) / h.wall
		}
	}
	l.SoftnetDrops = h.softnet
	return l
}

func (h *Host) run() error {
	tick := time.NewTicker(Window)
	defer tick.Stop()
	last, err := readTicks(h.proc)
	if err != nil {
		return err
	}
	at := time.Now()
	dropped, err := softnetDrops(h.proc)
	if err != nil {
		return err
	}
	for {
		quit := false
		select {
		case <-h.quit:
			quit = true // what is left of a window counts to the shares, and is no window
		case <-tick.C:
		}
		now, err := readTicks(h.proc)
		if err != nil {
			return err
		}
		drops, err := softnetDrops(h.proc)
		if err != nil {
			return err
		}
		then := at
		at = time.Now()
		h.note(now.minus(last), at.Sub(then), drops-dropped, !quit)
		if quit {
			return nil
		}
		last, dropped = now, drops
	}
}

func (h *Host) note(d cpuTicks, took time.Duration, drops int64, window bool) {
	wall := took.Seconds() * ticksPerSecond * float64(runtime.NumCPU())
	pressure := window && underPressure(h.proc)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ticks, h.wall = h.ticks.plus(d), h.wall+wall
	h.softnet += drops
	if !window {
		return
	}
	h.load.Windows++
	if float64(d.idle) < busyIdle*wall {
		h.load.Busy++
	}
	if pressure {
		h.load.MemoryPressure++
	}
}

// ticksPerSecond is USER_HZ, the same on every Linux.
const ticksPerSecond = 100

// cpuTicks are sums over all CPUs.
type cpuTicks struct{ processes, idle, softirq, steal int64 }

func (t cpuTicks) plus(u cpuTicks) cpuTicks {
	return cpuTicks{t.processes + u.processes, t.idle + u.idle, t.softirq + u.softirq, t.steal + u.steal}
}

func (t cpuTicks) minus(u cpuTicks) cpuTicks {
	return cpuTicks{t.processes - u.processes, t.idle - u.idle, t.softirq - u.softirq, t.steal - u.steal}
}

// readTicks reads the first line of stat: user nice system idle iowait irq softirq steal.
func readTicks(proc fs.FS) (t cpuTicks, err error) {
	data, err := fs.ReadFile(proc, "stat")
	if err != nil {
		return t, fmt.Errorf("read CPU times: %w", err)
	}
	line, _, _ := strings.Cut(string(data), "\n")
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return t, fmt.Errorf("read CPU times: /proc/stat begins %q", line)
	}
	for i, field := range f[1:9] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return t, fmt.Errorf("read CPU times: %w", err)
		}
		switch i {
		case 0, 1, 2:
			t.processes += n
		case 3, 4: // waiting for a disk is idle
			t.idle += n
		case 6:
			t.softirq = n
		case 7:
			t.steal = n
		}
	}
	return t, nil
}

// softnetDrops sums what all CPUs' backlogs refused since the boot.
func softnetDrops(proc fs.FS) (sum int64, err error) {
	data, err := fs.ReadFile(proc, "net/softnet_stat")
	if err != nil {
		return 0, fmt.Errorf("read packet drops: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, err := strconv.ParseInt(f[1], 16, 64)
		if err != nil {
			return 0, fmt.Errorf("read packet drops: %w", err)
		}
		sum += n
	}
	return sum, nil
}

// underPressure says that TCP holds more memory than tcp_mem's second value; a host
// that does not tell is not accused.
func underPressure(proc fs.FS) bool {
	limits, err1 := fs.ReadFile(proc, "sys/net/ipv4/tcp_mem")
	used, err2 := fs.ReadFile(proc, "net/sockstat")
	if err1 != nil || err2 != nil {
		return false
	}
	f := strings.Fields(string(limits))
	_, rest, found := strings.Cut(string(used), "TCP: ")
	line, _, _ := strings.Cut(rest, "\n")
	_, mem, found2 := strings.Cut(line, "mem ")
	if len(f) < 2 || !found || !found2 {
		return false
	}
	limit, err1 := strconv.ParseInt(f[1], 10, 64)
	pages, err2 := strconv.ParseInt(strings.TrimSpace(mem), 10, 64)
	return err1 == nil && err2 == nil && pages > limit
}
