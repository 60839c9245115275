// Package ktest lets tests name the kernel features that they need. A test without its
// feature is skipped with the kernel's own answer, or fails where NETKVLAB_MUST
// (comma-separated probe names, or "all") lists the feature. A CI job lists there what
// its kernel has, so that it cannot pass by skipping.
package ktest

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/netkvlab/netkvlab/fabric/kernel"
)

// MustEnv is the environment variable that lists the features that must be there.
const MustEnv = "NETKVLAB_MUST"

// Need skips the test unless this host has the features with these names, which are
// names of kernel.Probes. It fails instead where MustEnv lists the feature, and where
// its probe could not find out.
func Need(tb testing.TB, names ...string) {
	tb.Helper()
	for _, name := range names {
		judge(tb, name, kernel.Lacks(name))
	}
}

func judge(tb testing.TB, name string, lack error) {
	tb.Helper()
	listed := strings.Split(os.Getenv(MustEnv), ",")
	switch {
	case lack == nil:
	case !errors.Is(lack, kernel.ErrUnsupported):
		tb.Fatalf("could not tell whether this kernel has %s: %v", name, lack)
	case slices.Contains(listed, name) || slices.Contains(listed, "all"):
		tb.Fatalf("%s lists %s, but: %v", MustEnv, name, lack)
	default:
		tb.Skipf("%v", lack)
	}
}

// NeedFabric is Need for all that a plain fabric requires.
func NeedFabric(tb testing.TB) {
	tb.Helper()
	for _, p := range kernel.Probes() {
		if p.Required {
			Need(tb, p.Name)
		}
	}
}
