package experiment

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/kvagent"
)

const (
	// window is how often idle time is sampled: a mean over the run hides the bursts
	// that lengthen transfers.
	window = 250 * time.Millisecond
	// busyIdle is the idle share under which a window counts as overloaded.
	busyIdle = 0.10
	// Shares of overloaded windows from which results are doubted and not believed.
	busyDegraded, busyInvalid = 0.02, 0.20
	// lateDegraded is how late an agent's timer may be, in real time, before results are doubted.
	lateDegraded = 50 * time.Millisecond
)

// watch judges whether the host kept up: CPU idle time while trials ran, and how
// late the agents' timers were.
type watch struct {
	mu            sync.Mutex
	windows, busy int
	worst         time.Duration
	stood         time.Duration // longest that this program was stopped
	quit          chan struct{}
	done          chan struct{}
	err           error
}

func newWatch() *watch { return &watch{} }

func (w *watch) start() {
	w.quit, w.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(w.done)
		tick := time.NewTicker(window)
		defer tick.Stop()
		last, err := readIdle()
		at := time.Now()
		for err == nil {
			select {
			case <-w.quit:
				return
			case <-tick.C:
			}
			var idle time.Duration
			if idle, err = readIdle(); err == nil {
				now := time.Now()
				w.note(float64(idle-last) / float64(now.Sub(at)) / float64(runtime.NumCPU()))
				last, at = idle, now
			}
		}
		w.err = err
	}()
}

func (w *watch) stop() {
	close(w.quit)
	<-w.done
}

func (w *watch) note(idle float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.windows++
	if idle < busyIdle {
		w.busy++
	}
}

func (w *watch) lateness(ns int64) { w.worst = max(w.worst, time.Duration(ns)) }

func (w *watch) stall(late time.Duration) { w.stood = max(w.stood, late) }

// readIdle sums the idle time of all CPUs. Only idle is read: user, system and
// softirq are tick samples, idle is exact.
func readIdle() (time.Duration, error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("read idle time: %w", err)
	}
	line, _, _ := strings.Cut(string(data), "\n")
	f := strings.Fields(line)
	if len(f) < 6 || f[0] != "cpu" {
		return 0, fmt.Errorf("read idle time: /proc/stat begins %q", line)
	}
	ticks, err := strconv.ParseInt(f[4], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read idle time: %w", err)
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil // USER_HZ is 100 on every Linux
}

// fidelity is the verdict on the run so far. It judges what this package
// measures: host idle time, timer lateness, and byte conservation.
func (r *run) fidelity(interrupted bool) results.Fidelity {
	w := r.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	f := results.Fidelity{Verdict: results.VerdictGood, Reasons: []string{}, Notes: r.remarks()}
	if r.lab == nil {
		return f // nothing was emulated
	}
	worsen := func(verdict, format string, args ...any) {
		if f.Verdict != results.VerdictInvalid {
			f.Verdict = verdict
		}
		f.Reasons = append(f.Reasons, fmt.Sprintf(format, args...))
	}
	for _, n := range r.notes {
		worsen(results.VerdictInvalid, "%s", n)
	}
	if interrupted {
		worsen(results.VerdictDegraded, "the run was cut short: the requests that ended are not a sample of all")
	}
	if w.err != nil {
		worsen(results.VerdictDegraded, "the host's idle time could not be watched: %v", w.err)
	}
	if w.windows > 0 {
		share := float64(w.busy) / float64(w.windows)
		switch {
		case share >= busyInvalid:
			worsen(results.VerdictInvalid, "the host was overloaded: under %.0f%% idle in %.0f%% of %d windows of %v; raise scale.rate", 100*busyIdle, 100*share, w.windows, window)
		case share >= busyDegraded:
			worsen(results.VerdictDegraded, "the host was short of CPU: under %.0f%% idle in %.1f%% of %d windows of %v; raise scale.rate", 100*busyIdle, 100*share, w.windows, window)
		}
	}
	if w.stood > 0 {
		worsen(results.VerdictDegraded, "netkvlab stood still for %v: it was stopped, or the host was", w.stood.Round(time.Millisecond))
	}
	if n := r.portFailures(); n > 0 {
		worsen(results.VerdictInvalid, "%d requests failed because a pair had no source port left on a path: a limit of the emulation, not of the network; lower the load or use more instances", n)
	}
	if w.worst > lateDegraded {
		worsen(results.VerdictDegraded, "an agent's timer was %v late", w.worst.Round(time.Millisecond))
	}
	return f
}

// portFailures counts requests that ran into the path table's end.
func (r *run) portFailures() int {
	n := 0
	for i := range r.records {
		if rec := &r.records[i]; rec.World == results.WorldPacket && strings.Contains(rec.Reason, kvagent.PortsExhausted) {
			n++
		}
	}
	return n
}

// remarks are what a reader must know of the emulation whatever the verdict.
func (r *run) remarks() []string {
	if r.lab == nil {
		return append([]string{"nothing was emulated: these are the flow world's figures alone"}, r.workload...)
	}
	t := r.opt.Scenario.Transfer
	notes := []string{
		fmt.Sprintf("%d TCP streams a transfer, %s, paths %s; the number of streams moves results more than TCP does", t.Streams, t.CongestionControl, t.Paths),
		"link latency is not emulated; what remains is the host's own forwarding, some 25 us a round trip",
	}
	if f := r.lab.Fabric.Features(); !f.HashSeed {
		notes = append(notes, fmt.Sprintf("this kernel has no hash seed a switch: racks hash fields %#x, the tiers above %#x", f.ToRHashFields, f.AggHashFields))
	}
	return append(notes, r.workload...)
}
