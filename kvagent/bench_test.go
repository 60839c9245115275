package kvagent

import (
	"encoding/json"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/kvagent/control"
)

// cpuSeconds is the CPU time of this process.
func cpuSeconds() float64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

const benchBytes = 1 << 30

// BenchmarkDataPath moves one gibibyte per round over loopback, both ends in this
// process, and reports bytes per second and per second of CPU time
// (both ends). Where iperf3 is installed, the last line is iperf3 doing the same in the
// same run: compare ratios, because a machine's speed changes.
func BenchmarkDataPath(b *testing.B) {
	for _, bc := range []struct {
		name    string
		streams int
		edit    func(*control.ConfigureRequest)
	}{
		{"plain/streams=1", 1, func(*control.ConfigureRequest) {}},
		{"plain/streams=4", 4, func(*control.ConfigureRequest) {}},
		{"integrity/streams=1", 1, func(c *control.ConfigureRequest) { c.Transfer.Integrity = true }},
	} {
		b.Run(bc.name, func(b *testing.B) {
			_, a, to := pair(b, bc.edit)
			var specs []*control.StreamSpec
			for range bc.streams {
				specs = append(specs, bytesOn(0, benchBytes/int64(bc.streams)))
			}
			_, err := a.Warm(b.Context(), bc.streams)
			require.NoError(b, err)
			b.ReportAllocs()
			b.SetBytes(benchBytes)
			begun, cpu := time.Now(), cpuSeconds()
			b.ResetTimer()
			for req := range uint64(b.N) {
				to.expect(req, a, specs...)
				a.send(req, to, specs...)
				to.done()
				a.sent()
			}
			report(b, float64(b.N)*benchBytes, time.Since(begun).Seconds(), cpuSeconds()-cpu)
		})
	}
	b.Run("iperf3", benchIperf3)
}

func report(b *testing.B, bytes, seconds, cpu float64) {
	b.ReportMetric(bytes*8/1e9/seconds, "Gbit/s")
	b.ReportMetric(bytes*8/1e9/cpu, "Gbit/s/core")
}

func benchIperf3(b *testing.B) {
	if _, err := exec.LookPath("iperf3"); err != nil {
		b.Skipf("iperf3: %v", err)
	}
	r := newRig(b)
	at := r.addr()
	server := exec.Command("iperf3", "-s", "-B", at)
	require.NoError(b, server.Start())
	defer func() {
		require.NoError(b, server.Process.Kill())
		_ = server.Wait() // killed
	}()
	var out struct {
		End struct {
			Sum struct {
				Seconds, Bytes float64
			} `json:"sum_received"`
			CPU struct {
				Host   float64 `json:"host_total"`
				Remote float64 `json:"remote_total"`
			} `json:"cpu_utilization_percent"`
		}
	}
	var bytes, seconds, cpu float64
	for range b.N {
		until(b, "iperf3", func() bool {
			text, err := exec.Command("iperf3", "-c", at, "-l", "256K", "-J", "-n", strconv.Itoa(benchBytes)).Output()
			return err == nil && json.Unmarshal(text, &out) == nil
		})
		bytes += out.End.Sum.Bytes
		seconds += out.End.Sum.Seconds
		cpu += out.End.Sum.Seconds * (out.End.CPU.Host + out.End.CPU.Remote) / 100
	}
	b.SetBytes(benchBytes)
	report(b, bytes, seconds, cpu)
}

// BenchmarkRequest is the cost of a small transfer from its command to the last event.
func BenchmarkRequest(b *testing.B) {
	_, a, to := pair(b)
	_, err := a.Warm(b.Context(), 1)
	require.NoError(b, err)
	b.ReportAllocs()
	b.ResetTimer()
	for req := range uint64(b.N) {
		to.expect(req, a, bytesOn(0, 1448))
		a.send(req, to, bytesOn(0, 1448))
		to.done()
		a.sent()
	}
}
