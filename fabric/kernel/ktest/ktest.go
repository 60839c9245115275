// Package ktest lets tests say what they need of the kernel. A test whose need
// is not met is skipped with the kernel's own answer, or fails where the
// environment names the need as one that must be met: a CI job lists what its
// kernel has in NETKVLAB_MUST (comma-separated probe names, or "all"), so that
// it cannot go green by skipping.
package ktest

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/netkvlab/netkvlab/fabric/kernel"
)

// MustEnv is the environment variable that lists needs which must be met.
const MustEnv = "NETKVLAB_MUST"

// Need skips the test unless the kernel passes all probes. It fails instead
// where MustEnv lists the probe, and where a probe could not tell.
func Need(tb testing.TB, probes ...*kernel.Probe) {
	tb.Helper()
	for _, p := range probes {
		err := p.Check()
		switch {
		case err == nil:
		case !errors.Is(err, kernel.ErrUnsupported):
			tb.Fatalf("could not tell whether this kernel has %s: %v", p.Name, err)
		case must(p.Name):
			tb.Fatalf("%s lists %s, but: %v", MustEnv, p.Name, err)
		default:
			tb.Skipf("%v", err)
		}
	}
}

// NeedFabric is Need for all that a plain fabric requires.
func NeedFabric(tb testing.TB) {
	tb.Helper()
	for _, p := range kernel.Probes() {
		if p.Required {
			Need(tb, p)
		}
	}
}

func must(name string) bool {
	listed := strings.Split(os.Getenv(MustEnv), ",")
	return slices.Contains(listed, name) || slices.Contains(listed, "all")
}
