package fidelity

import (
	"runtime"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func proc(stat, softnet, sockstat string) fstest.MapFS {
	return fstest.MapFS{
		"stat":                 {Data: []byte(stat)},
		"net/softnet_stat":     {Data: []byte(softnet)},
		"net/sockstat":         {Data: []byte(sockstat)},
		"sys/net/ipv4/tcp_mem": {Data: []byte("100\t200\t300\n")},
	}
}

func TestWhatTheHostTellsIsRead(t *testing.T) {
	t.Parallel()
	p := proc("cpu  10 1 20 300 4 0 7 5 0 0\ncpu0 1 2 3\n", "00000001 0000000a 0\n00000001 00000002 0\n", "sockets: used 4\nTCP: inuse 1 orphan 0 tw 0 alloc 2 mem 201\nUDP: inuse 0 mem 0\n")
	ticks, err := readTicks(p)
	require.NoError(t, err)
	assert.Equal(t, cpuTicks{processes: 31, idle: 304, softirq: 7, steal: 5}, ticks)
	drops, err := softnetDrops(p)
	require.NoError(t, err)
	assert.EqualValues(t, 12, drops)
	assert.True(t, underPressure(p), "201 pages of 200")
	assert.False(t, underPressure(proc("", "", "TCP: inuse 1 mem 200\n")))
	assert.False(t, underPressure(fstest.MapFS{}), "a host that does not tell")
}

func TestWhatIsNoStatFileIsAnError(t *testing.T) {
	t.Parallel()
	for _, stat := range []string{"", "cpu", "cpu 1 2 3", "cpu a b c d e f g h i", "intr 1 2 3 4 5 6 7 8 9"} {
		_, err := readTicks(proc(stat, "", ""))
		require.Error(t, err, stat)
	}
	_, err := readTicks(fstest.MapFS{})
	require.Error(t, err)
	h := NewHost(fstest.MapFS{})
	h.Start()
	h.Stop()
	assert.Error(t, h.Load().Err)
}

func TestWindowsAreCountedAndSharesAdded(t *testing.T) {
	t.Parallel()
	h := NewHost(proc("", "", "TCP: inuse 1 mem 999\n"))
	all := int64(25 * runtime.NumCPU()) // ticks of a quarter second
	h.note(cpuTicks{idle: all, steal: 0}, Window, 3, true)
	h.note(cpuTicks{idle: all / 20, softirq: all / 2}, Window, 0, true)
	h.note(cpuTicks{}, time.Millisecond, 1, false)
	l := h.Load()
	assert.Equal(t, 2, l.Windows)
	assert.Equal(t, 1, l.Busy, "a twentieth idle")
	assert.Equal(t, 2, l.MemoryPressure)
	assert.EqualValues(t, 4, l.SoftnetDrops)
	assert.InDelta(t, 0.52, l.Idle, 0.03)
	assert.InDelta(t, 0.25, l.SoftIRQ, 0.03)
	assert.Zero(t, l.Others, "nobody told what the run took")
}

func TestOthersAreWhatTheRunDidNotTake(t *testing.T) {
	t.Parallel()
	const idle = "cpu  10 0 20 300 0 0 7 5 0 0\n"
	h := NewHost(proc(idle, "00000001 00000000 0\n", "TCP: inuse 1 mem 1\n"))
	used := 10 * time.Second // before anything was sampled
	h.Own = func() time.Duration { used += 50 * time.Millisecond; return used }
	for range 2 {
		h.Start()
		h.Stop()
		used += time.Minute // between trials
	}
	all := int64(100 * runtime.NumCPU()) // ticks of a second
	h.note(cpuTicks{processes: all / 2, idle: all / 2}, time.Second, 0, true)
	h.mu.Lock()
	h.wall = float64(all)
	h.mu.Unlock()
	assert.InDelta(t, 0.5-10/float64(all), h.Load().Others, 1e-9, "twice 50 ms were the run's own")
	h.Own = func() time.Duration { used += time.Hour; return used }
	h.Start()
	h.Stop()
	assert.Zero(t, h.Load().Others, "ticks and times differ a little: never below nothing")
}
