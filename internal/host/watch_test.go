package host

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// procWith is a proc file system with two CPUs, where TCP holds the given pages; above 200 is
// memory pressure.
func procWith(t *testing.T, stat string, drops [2]int, pages int) string {
	t.Helper()
	rest := strings.Repeat(" 00000000", 9)
	return procOf(t, map[string]string{
		"stat":                 stat,
		"net/softnet_stat":     fmt.Sprintf("00000001 %08x%s\n00000001 %08x%s\n", drops[0], rest, drops[1], rest),
		"net/sockstat":         fmt.Sprintf("sockets: used 4\nTCP: inuse 1 orphan 0 tw 0 alloc 2 mem %d\nUDP: inuse 0 mem 0\n", pages),
		"sys/net/ipv4/tcp_mem": "100\t200\t300\n",
	})
}

const twoCPUs = "cpu  10 1 20 300 4 0 7 5 0 0\ncpu0 10 1 20 0 4 0 0 5 0 0\ncpu1 0 0 0 300 0 2 7 0 0 0\nctxt 5\n"

func TestWhatTheHostSaysIsRead(t *testing.T) {
	t.Parallel()
	r, err := read(procWith(t, twoCPUs, [2]int{10, 2}, 201))
	require.NoError(t, err)
	require.Len(t, r.cpus, 2)
	got := timeOf(r.cpus[0]).plus(timeOf(r.cpus[1]))
	assert.InDeltaSlice(t, []float64{0.31, 3.04, 0.07, 0.05, 3.49}, []float64{got.processes, got.idle, got.softirq, got.steal, got.all}, 1e-9)
	assert.EqualValues(t, 12, r.drops)
	assert.True(t, r.pressure, "201 pages of 200")

	r, err = read(procWith(t, twoCPUs, [2]int{}, 200))
	require.NoError(t, err)
	assert.False(t, r.pressure)
	fs, err := procfs.NewFS(t.TempDir())
	require.NoError(t, err)
	assert.False(t, underPressure(fs), "a host that does not tell")
}

func TestWhatIsNoStatFileIsAnError(t *testing.T) {
	t.Parallel()
	for _, stat := range []string{"", "cpu0", "cpu0 a b c d e f g h i", "intr 1 2 3 4 5 6 7 8 9"} {
		_, err := read(procWith(t, stat, [2]int{}, 1))
		require.Error(t, err, stat)
	}
	w := NewWatch(t.TempDir())
	w.Start()
	w.Stop()
	assert.ErrorContains(t, w.Load().Err, "read CPU times")
}

// watched returns a watch of two usable CPUs, for noting windows.
func watched(own ...int) *Watch {
	w := NewWatch(Proc, own...)
	w.usable = func(cpu int64) bool { return cpu < 2 }
	return w
}

// after returns a reading some time later, with the given CPU times in between.
func after(took time.Duration, cpus ...procfs.CPUStat) reading {
	r := reading{at: time.Time{}.Add(took), cpus: map[int64]procfs.CPUStat{}}
	for i, c := range cpus {
		r.cpus[int64(i)] = c
	}
	return r
}

var begun = after(0, procfs.CPUStat{}, procfs.CPUStat{}, procfs.CPUStat{})

func TestWindowsAreCountedAndSharesAdded(t *testing.T) {
	t.Parallel()
	w := watched()
	idle, busy := procfs.CPUStat{Idle: 0.25}, procfs.CPUStat{Idle: 0.0125, SoftIRQ: 0.125, System: 0.1125}
	a := after(Window, idle, idle)
	a.drops, a.pressure = 3, true
	w.note(begun, a, true)
	w.note(begun, after(Window, busy, busy), true)
	rest := after(10*time.Millisecond, procfs.CPUStat{Iowait: 0.01}, procfs.CPUStat{Iowait: 0.01})
	rest.drops, rest.pressure = 1, true
	w.note(begun, rest, false)
	l := w.Load()
	assert.Equal(t, 2, l.Windows)
	assert.Equal(t, 1, l.Busy, "a twentieth idle")
	assert.Equal(t, 1, l.MemoryPressure, "the rest of a window is none")
	assert.EqualValues(t, 4, l.SoftnetDrops)
	assert.InDelta(t, (0.25+0.0125+0.01)/0.51, l.Idle, 1e-9)
	assert.InDelta(t, 0.125/0.51, l.SoftIRQ, 1e-9)
	assert.Zero(t, l.Others, "nobody told which processes are the run's own")
	assert.Zero(t, l.CPUStopped)
	assert.Zero(t, l.Stopped)
}

func TestOnlyCPUsThatTheRunMayUseCount(t *testing.T) {
	t.Parallel()
	w := watched()
	w.usable = func(cpu int64) bool { return cpu == 0 }
	// The other CPU was idle all the time, and a third came online in between.
	w.note(after(0, procfs.CPUStat{}, procfs.CPUStat{}), after(Window, procfs.CPUStat{User: 0.25}, procfs.CPUStat{Idle: 0.25}, procfs.CPUStat{Idle: 9}), true)
	l := w.Load()
	assert.Zero(t, l.Idle)
	assert.Equal(t, 1, l.Busy)
}

func TestOthersAreWhatTheRunDidNotTake(t *testing.T) {
	t.Parallel()
	w := watched(os.Getpid())
	half := procfs.CPUStat{User: 0.125, Idle: 0.125}
	w.note(begun, after(Window, half, half), true)
	w.used = 50 * time.Millisecond
	assert.InDelta(t, (0.25-0.05)/0.5, w.Load().Others, 1e-9)
	w.used = time.Hour
	assert.Zero(t, w.Load().Others, "ticks and times differ a little: never below nothing")
}

// processLine is a process's stat line with this CPU time, in ticks.
func processLine(pid, user, system int) string {
	return fmt.Sprintf("%d (a) b) S 1 1 1 0 -1 0 0 0 0 0 %d %d 0 0 20 0 1 0 100 4096 3%s\n", pid, user, system, strings.Repeat(" 0", 28))
}

func TestWhatTheRunTookIsCountedBetweenStartAndStop(t *testing.T) {
	t.Parallel()
	dir := procWith(t, twoCPUs, [2]int{}, 1)
	set := func(pid, user int) {
		require.NoError(t, os.MkdirAll(fmt.Sprintf("%s/%d", dir, pid), 0o755))
		require.NoError(t, os.WriteFile(fmt.Sprintf("%s/%d/stat", dir, pid), []byte(processLine(pid, user, 5)), 0o600))
	}
	w := NewWatch(dir, 7, 8, 9) // process 9 does not exist
	set(7, 1000)
	set(8, 1000)
	w.Start()
	set(7, 1030)
	require.NoError(t, os.RemoveAll(dir+"/8"))
	w.Stop()
	require.NoError(t, w.Load().Err)
	assert.Equal(t, 300*time.Millisecond, w.used, "of the one that lives")
	set(7, 5000) // between trials
	w.Start()
	w.Stop()
	assert.Equal(t, 300*time.Millisecond, w.used)
}

func TestAStopIsSeen(t *testing.T) {
	t.Parallel()
	idle := procfs.CPUStat{Idle: 0.25}
	for name, tt := range map[string]struct {
		took             time.Duration
		cpus             [2]procfs.CPUStat
		cpuStop, program time.Duration
	}{
		"nothing":                            {Window, [2]procfs.CPUStat{idle, idle}, 0, 0},
		"the kernel's account is coarse":     {Window, [2]procfs.CPUStat{idle, {User: 0.23}}, 0, 0},
		"a CPU that does not say":            {Window, [2]procfs.CPUStat{idle, {User: 0.13}}, 120 * time.Millisecond, 0},
		"stolen time is accounted for":       {Window, [2]procfs.CPUStat{idle, {User: 0.13, Steal: 0.12}}, 0, 0},
		"a window late on an idle host":      {time.Second, [2]procfs.CPUStat{{Idle: 1}, {Idle: 1}}, 0, 750 * time.Millisecond},
		"a window late on a busy host":       {time.Second, [2]procfs.CPUStat{{User: 1}, {User: 0.9, Idle: 0.1}}, 0, 0},
		"a little late, as timers may be":    {290 * time.Millisecond, [2]procfs.CPUStat{{Idle: 0.29}, {Idle: 0.29}}, 0, 0},
		"the whole machine, while it worked": {time.Second, [2]procfs.CPUStat{{User: 0.25}, {User: 0.25}}, 750 * time.Millisecond, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := watched()
			w.note(begun, after(tt.took, tt.cpus[0], tt.cpus[1]), true)
			w.note(begun, after(Window, idle, idle), true)
			l := w.Load()
			assert.InDelta(t, tt.cpuStop, l.CPUStopped, float64(time.Microsecond))
			assert.Equal(t, tt.program, l.Stopped)
		})
	}
}

func TestTheLongestStopCounts(t *testing.T) {
	t.Parallel()
	w := watched()
	for _, ms := range []int{100, 200, 60} {
		stop := time.Duration(ms) * time.Millisecond
		w.note(begun, after(Window, procfs.CPUStat{User: (Window - stop).Seconds()}, procfs.CPUStat{User: Window.Seconds()}), true)
		late := (Window + stop).Seconds()
		w.note(begun, after(Window+stop, procfs.CPUStat{Idle: late}, procfs.CPUStat{Idle: late}), true)
	}
	l := w.Load()
	assert.InDelta(t, 200*time.Millisecond, l.CPUStopped, float64(time.Microsecond))
	assert.Equal(t, 200*time.Millisecond, l.Stopped)
}

func TestCausesOutsideOfTheRunAreNamed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		load Load
		want string
	}{
		{Load{Windows: 100, Busy: 50}, ""},
		{Load{Others: 0.1, Steal: 0.02}, ""},
		{Load{Others: 0.34, Steal: 0.5}, "processes other than this run took 34% of the CPU time"},
		{Load{Others: 0.05, Steal: 0.034}, "a hypervisor took 3.4% of the CPU time"},
		{Load{CPUStopped: 120 * time.Millisecond}, "a CPU stood still for 120ms"},
		{Load{Stopped: 2 * time.Second}, "netkvlab stood still for 2s while CPUs were idle"},
	} {
		reason, ok := tt.load.Outside()
		assert.Equal(t, tt.want != "", ok)
		assert.Contains(t, reason, tt.want)
		assert.Equal(t, ok, reason != "")
	}
}

func TestSeveralWatchesLookAtThisHostAtOnce(t *testing.T) {
	t.Parallel()
	watches := []*Watch{NewWatch(Proc, os.Getpid()), NewWatch(Proc, os.Getpid()), NewWatch(Proc)}
	for _, w := range watches {
		w.Start()
	}
	for end := time.Now().Add(10 * Window); ; { // until the watch has sampled a window
		if watches[0].Load().Windows > 0 || time.Now().After(end) {
			break
		}
	}
	for _, w := range watches {
		w.Stop()
		l := w.Load()
		require.NoError(t, l.Err)
		assert.InDelta(t, 0.5, l.Idle, 0.6)
		assert.InDelta(t, 0.5, l.Others, 0.6)
	}
	assert.Positive(t, watches[0].Load().Windows)
	assert.Zero(t, watches[2].Load().Others)
	assert.Positive(t, watches[0].used, "this test waits busily")
}
