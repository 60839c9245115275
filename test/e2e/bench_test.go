package e2e

import (
	"os/exec"
	"testing"
	"time"
)

// BenchmarkUpDetached64GPU measures all of `up -d paper-64gpu`, until 16 agents answer and
// connections are open, and of `down`: the time that a user waits.
func BenchmarkUpDetached64GPU(b *testing.B) {
	benchLab(b, "paper-64gpu")
}

// BenchmarkUpDetached32GPU is the same for the quickstart.
func BenchmarkUpDetached32GPU(b *testing.B) {
	benchLab(b, "quickstart")
}

// BenchmarkUpDetached1024GPU is the same for 256 agents; it should take at most 5 s.
func BenchmarkUpDetached1024GPU(b *testing.B) {
	benchLab(b, "1024gpu")
}

func benchLab(b *testing.B, name string) {
	var up, down time.Duration
	for b.Loop() {
		up += timed(b, "up", "-d", name)
		down += timed(b, "down", name)
	}
	b.ReportMetric(up.Seconds()/float64(b.N), "up-s/op")
	b.ReportMetric(down.Seconds()/float64(b.N), "down-s/op")
}

func timed(b *testing.B, args ...string) time.Duration {
	b.Helper()
	start := time.Now()
	out, err := exec.CommandContext(b.Context(), binary, args...).CombinedOutput()
	if err != nil {
		b.Fatalf("%v: %v: %s", args, err, out)
	}
	return time.Since(start)
}
