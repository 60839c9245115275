package ktest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/netkvlab/netkvlab/fabric/kernel"
)

// recorder stands in for a test and notes how it ended.
type recorder struct {
	testing.TB
	skipped, failed string
}

func (r *recorder) Helper() {}
func (r *recorder) Skipf(format string, args ...any) {
	r.skipped = fmt.Sprintf(format, args...)
}
func (r *recorder) Fatalf(format string, args ...any) {
	r.failed = fmt.Sprintf(format, args...)
}

func TestNeed(t *testing.T) {
	for _, tc := range []struct {
		name, must  string
		skips, fail bool
	}{
		{"an unmet need skips", "", true, false},
		{"an unmet need of another name skips", "netns,red", true, false},
		{"an unmet need that must be met fails", "netns,hovercraft", false, true},
		{"all must be met", "all", false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv(MustEnv, tc.must)
			missing := &kernel.UnsupportedError{Feature: "hovercraft", Need: "CONFIG_EELS", Cause: assert.AnError}
			r := &recorder{}
			judge(r, "hovercraft", missing)
			assert.Equal(t, tc.skips, r.skipped != "", r.skipped)
			assert.Equal(t, tc.fail, r.failed != "", r.failed)
			assert.Contains(t, r.skipped+r.failed, "hovercraft: needs CONFIG_EELS")
		})
	}
}

func TestNeedOfNothingGoesOn(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	Need(r)
	assert.Empty(t, r.skipped+r.failed)
}
