package flowsim_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/flowsim"
)

const benchFlows = 12_000

// BenchmarkTree16 runs 12,000 flows through the 16-host tree; an op is the whole run.
func BenchmarkTree16(b *testing.B) {
	t := tree{pods: 4}
	list := t.poisson(benchFlows, 12)
	b.ReportAllocs()
	for b.Loop() {
		ended := 0
		simulate(b, t.capacities(), list, func(flowsim.Completion) { ended++ })
		if ended != benchFlows {
			b.Fatalf("%d of %d flows ended", ended, benchFlows)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/run")
}

// BenchmarkConcurrent keeps the number of flows constant: an op is the end of a flow and
// the start of another. 64 pods are 256 instances of four GPUs.
func BenchmarkConcurrent(b *testing.B) {
	for _, c := range []struct{ pods, flows int }{{4, 32}, {64, 500}, {64, 2000}} {
		b.Run(fmt.Sprintf("hosts=%d/flows=%d", c.pods*racks*hosts, c.flows), func(b *testing.B) {
			t := tree{pods: c.pods}
			r := rand.New(rand.NewPCG(3, 4))
			n := mustNetwork(b, t.capacities()...)
			paths := make([][]flowsim.LinkIndex, 1<<12)
			for i := range paths {
				paths[i] = t.path(r)
			}
			id := uint64(0)
			start := func(now flowsim.Instant) {
				id++
				if err := n.Start(now, flowsim.Flow{ID: id, Path: paths[r.IntN(len(paths))], Bytes: size(r)}); err != nil {
					b.Fatal(err)
				}
			}
			for range c.flows {
				start(flowsim.Instant{})
			}
			turn := func() {
				next, _ := n.Next()
				ended, err := n.Advance(next)
				if err != nil {
					b.Fatal(err)
				}
				for range ended {
					start(next)
				}
			}
			for range 10 * c.flows { // to the steady state
				turn()
			}
			b.ReportAllocs()
			for b.Loop() {
				turn()
			}
		})
	}
}

// BenchmarkSimGrid runs BenchmarkTree16's flows in SimGrid's fluid model and
// compares the completion times; see bench/simgrid. The time per op means nothing: use
// s/run, which excludes the building of the platform.
func BenchmarkSimGrid(b *testing.B) {
	cxx, err := exec.LookPath("g++")
	if err != nil {
		skipSimGrid(b, "needs g++ and SimGrid (Debian: g++, libsimgrid-dev): "+err.Error())
	}
	dir := b.TempDir()
	harness := filepath.Join(dir, "maxmin")
	source := filepath.Join("..", "bench", "simgrid", "maxmin.cpp")
	if out, err := exec.CommandContext(b.Context(), cxx, "-std=c++17", "-O2", "-o", harness, source, "-lsimgrid").CombinedOutput(); err != nil {
		if strings.Contains(string(out), "simgrid/s4u.hpp: No such file") {
			skipSimGrid(b, "its headers are not installed (Debian: libsimgrid-dev)")
		}
		b.Fatalf("compile %s: %v\n%s", source, err, out)
	}
	t := tree{pods: 4}
	list := t.poisson(benchFlows, 12)
	instance := filepath.Join(dir, "instance")
	writeInstance(b, instance, t.capacities(), list)

	best := 0.0
	runs := 0
	for b.Loop() {
		out, err := exec.CommandContext(b.Context(), harness, instance, "--log=root.thresh:error").Output()
		require.NoError(b, err)
		took := mustNumbers(b, out)
		require.Len(b, took, 1+benchFlows)
		if runs == 0 || took[0] < best {
			best = took[0]
		}
		if runs++; runs == 1 {
			simulate(b, t.capacities(), list, func(c flowsim.Completion) {
				// SimGrid keeps times in one float64 and stops flows at 1e-5 bytes.
				require.InEpsilon(b, took[1+c.ID]-c.Started.Seconds(), c.At.Sub(c.Started), 1e-6, "flow %d", c.ID)
			})
		}
	}
	b.ReportMetric(best, "s/run")
}

// skipSimGrid prints why there is no figure; a skipped benchmark does not print it.
func skipSimGrid(b *testing.B, why string) {
	b.Helper()
	fmt.Fprintln(os.Stderr, b.Name()+": not measured:", why)
	b.SkipNow()
}

// writeInstance writes flows in the format of bench/simgrid/README.md.
func writeInstance(tb testing.TB, name string, capacities []float64, list []arrival) {
	tb.Helper()
	var s strings.Builder
	fmt.Fprintln(&s, len(capacities), len(list))
	for _, c := range capacities {
		fmt.Fprintln(&s, strconv.FormatFloat(c, 'g', -1, 64))
	}
	for _, a := range list {
		fmt.Fprint(&s, strconv.FormatFloat(a.at, 'g', -1, 64), " ", int64(a.flow.Bytes), " ", len(a.flow.Path))
		for _, l := range a.flow.Path {
			fmt.Fprint(&s, " ", int(l))
		}
		fmt.Fprintln(&s)
	}
	require.NoError(tb, os.WriteFile(name, []byte(s.String()), 0o600))
}

func mustNumbers(tb testing.TB, out []byte) []float64 {
	tb.Helper()
	var numbers []float64
	for _, f := range strings.Fields(string(out)) {
		x, err := strconv.ParseFloat(f, 64)
		require.NoError(tb, err)
		numbers = append(numbers, x)
	}
	return numbers
}
